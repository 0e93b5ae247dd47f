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

// Options select and configure the cells to measure.
type Options struct {
	// Source provides the servers.
	Source cluster.Source
	// Scenarios and Peers are the wanted ones; all if empty.
	Scenarios, Peers []string
	// Callers, unless empty, replaces the numbers of callers of scenarios that let choose.
	Callers []int
	// Nodes is the number of nodes where the scenario does not say.
	Nodes    int
	Rounds   int
	Duration time.Duration
	// Quick measures a little of every scenario, and begins nothing new after QuickBudget.
	Quick bool
	// Goals measures only the cells that the report's goals need.
	Goals bool
	// Seed determines the order of the cells.
	Seed uint64
}

// Plan returns the cells of one round, in the order of the report.
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

// check refuses unknown names, which would otherwise be left out silently.
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

// cells returns the cells of a scenario.
func (o Options) cells(s Scenario) (cells []cell.Cell) {
	for _, m := range o.matrices(s) {
		cells = append(cells, o.combinations(s, m)...)
	}
	return cells
}

// combinations returns all cells of a matrix.
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

// matrices returns the matrices of a scenario, as the options change them.
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

// duration returns the measured time, short enough that a held lock does not expire meanwhile.
func (o Options) duration(m Matrix, ttl time.Duration) time.Duration {
	d := max(o.Duration*time.Duration(m.Longer), m.AtLeast)
	if slices.Contains(m.Loads, cell.Wait) {
		d = min(d, ttl/2)
	}
	return d
}

// withPeers returns the cell for each peer that supports it.
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

// mixed shuffles the groups of cells. Cells that are compared with each other stay together, so that the machine is
// in the same state for all of them.
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
