package runner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/peer"
)

// Options say what is measured.
type Options struct {
	// Source is where servers come from.
	Source cluster.Source
	// Scenarios and Peers that are wanted; all if empty.
	Scenarios, Peers []string
	// Callers replaces those of the scenarios, where they can be chosen, unless it is empty.
	Callers []int
	// Nodes is how many there are where the scenario does not say.
	Nodes    int
	Rounds   int
	Duration time.Duration
	// Quick measures a little of everything, and nothing new after QuickBudget.
	Quick bool
	// Goals measures what the goals of the report need, and nothing else.
	Goals bool
	// Seed of the order of cells.
	Seed uint64
}

// Plan is the cells of one round, in the order of the report.
func (o Options) Plan() ([]cell.Cell, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var cells []cell.Cell
	for _, s := range Scenarios() {
		if len(o.Scenarios) == 0 || slices.Contains(o.Scenarios, s.Name) {
			cells = append(cells, o.cells(s)...)
		}
	}
	return cells, nil
}

// check refuses names that there are not, which would be left out in silence.
func (o Options) check() error {
	var scenarios []string
	for _, s := range Scenarios() {
		scenarios = append(scenarios, s.Name)
	}
	for _, name := range o.Scenarios {
		if !slices.Contains(scenarios, name) {
			return fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(scenarios, ", "))
		}
	}
	for _, name := range o.Peers {
		if _, err := peer.Find(name); err != nil {
			return err
		}
	}
	return nil
}

// cells are those that a scenario has.
func (o Options) cells(s Scenario) (cells []cell.Cell) {
	for _, m := range o.matrices(s) {
		cells = append(cells, o.combinations(s, m)...)
	}
	return cells
}

// combinations are all cells of a matrix.
func (o Options) combinations(s Scenario, m Matrix) (cells []cell.Cell) {
	for _, load := range m.Loads {
		for _, nodes := range m.Nodes {
			for _, processes := range m.Processes {
				for _, callers := range m.Callers {
					for _, b := range m.Faults {
						cells = append(cells, o.withPeers(cell.Cell{
							Scenario: s.Name, Load: load, Callers: callers, Processes: processes, Nodes: nodes,
							Fault: b.Fault, Bad: b.Bad, Duration: o.duration(m, s.TTL), Settle: s.Settle, TTL: s.TTL, Held: s.Held,
						}, m.Peers)...)
					}
				}
			}
		}
	}
	return cells
}

// matrices are those of a scenario, as the options change them.
func (o Options) matrices(s Scenario) []Matrix {
	usual := Matrix{Processes: []int{1}, Nodes: []int{o.Nodes}, Faults: []Breakage{{}}, Longer: 1}
	if o.Goals {
		var ms []Matrix
		for _, m := range s.Goals {
			ms = append(ms, m.over(s.Full).over(usual))
		}
		return ms
	}
	m := s.Full
	if o.Quick {
		m = s.Quick.over(s.Full)
	}
	if len(o.Peers) > 0 {
		m.Peers = s.Full.Peers
	}
	if len(o.Callers) > 0 && !s.Fixed {
		m.Callers = o.Callers
	}
	return []Matrix{m.over(usual)}
}

// duration is never so long that a lock that others wait for could run out.
func (o Options) duration(m Matrix, ttl time.Duration) time.Duration {
	d := max(o.Duration*time.Duration(m.Longer), m.AtLeast)
	if slices.Contains(m.Loads, cell.Wait) {
		d = min(d, ttl/2)
	}
	return d
}

// withPeers is the cell for each peer with which it makes sense.
func (o Options) withPeers(c cell.Cell, peers []string) (cells []cell.Cell) {
	if c.Processes > c.Callers || c.Bad > (c.Nodes-1)/2 {
		return nil
	}
	if c.Fault == cluster.Restarted {
		c.After = c.Duration / afterPart
	}
	for _, name := range peers {
		if len(o.Peers) == 0 || slices.Contains(o.Peers, name) {
			c.Peer = name
			cells = append(cells, c)
		}
	}
	return cells
}

// mixed is another order of the cells: groups of those that are compared with each other
// stay together, so that the machine is the same for all of them.
func mixed(cells []cell.Cell, random *rand.Rand) []cell.Cell {
	groups := map[string][]cell.Cell{}
	var names []string
	for _, c := range cells {
		if groups[c.Group()] == nil {
			names = append(names, c.Group())
		}
		groups[c.Group()] = append(groups[c.Group()], c)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var order []cell.Cell
	for _, name := range names {
		g := groups[name]
		random.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		order = append(order, g...)
	}
	return order
}
