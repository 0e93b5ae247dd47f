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

// cells are all combinations that a scenario has.
func (o Options) cells(s Scenario) (cells []cell.Cell) {
	if o.Quick {
		q := s.Quick
		s.Callers, s.Processes, s.Nodes, s.Loads, s.Faults = q.Callers, q.Processes, q.Nodes, q.Loads, q.Faults
		if len(o.Peers) == 0 {
			s.Peers = q.Peers
		}
		if q.Longer > 0 {
			s.Longer = q.Longer
		}
	}
	if len(o.Callers) > 0 && !s.Fixed {
		s.Callers = o.Callers
	}
	for _, load := range s.Loads {
		for _, nodes := range s.Nodes {
			for _, processes := range s.Processes {
				for _, callers := range s.Callers {
					for _, b := range s.Faults {
						c := cell.Cell{
							Scenario: s.Name, Load: load, Callers: callers, Processes: processes,
							Nodes: max(nodes, 0), Fault: b.Fault, Bad: b.Bad,
							Duration: o.duration(s), Settle: s.Settle, TTL: s.TTL,
						}
						if nodes == 0 {
							c.Nodes = o.Nodes
						}
						cells = append(cells, o.withPeers(c, s.Peers)...)
					}
				}
			}
		}
	}
	return cells
}

// duration is never so long that a lock of the waiters' scenario could run out.
func (o Options) duration(s Scenario) time.Duration {
	d := o.Duration * time.Duration(max(s.Longer, 1))
	if slices.Contains(s.Loads, cell.Wait) {
		d = min(d, s.TTL/2)
	}
	return d
}

// withPeers is the cell for each peer with which it makes sense.
func (o Options) withPeers(c cell.Cell, peers []string) (cells []cell.Cell) {
	if c.Processes > c.Callers || c.Bad > (c.Nodes-1)/2 {
		return nil
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
