package runner

import (
	"cmp"
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
	// Scenarios and Peers are the wanted ones; all if empty.
	Scenarios, Peers []string
	// Nodes is the number of nodes where the scenario does not say.
	Nodes    int
	Rounds   int
	Duration time.Duration
	// Quick measures a little of every scenario, too shortly for a verdict.
	Quick bool
}

// All reports whether every cell is measured.
func (o Options) All() bool { return len(o.Scenarios) == 0 && len(o.Peers) == 0 && !o.Quick }

// Matrix stands for all combinations of its fields. A matrix takes its empty fields from the first one of the scenario.
type Matrix struct {
	Peers []string
	// Sizes are the numbers of callers and processes.
	Sizes []Size
	// Nodes are the numbers of nodes; the flag decides if empty.
	Nodes []int
	Loads []cell.Load
	// Conditions are what to measure under; if empty, all nodes are well, and callers are patient.
	Conditions []Condition
	// Longer multiplies the measured time.
	Longer int
}

// Size is a number of callers, and the number of processes over which they are spread.
type Size struct{ Callers, Processes int }

func in(processes int, callers ...int) (sizes []Size) {
	for _, n := range callers {
		sizes = append(sizes, Size{n, processes})
	}
	return sizes
}

// Condition is a fault of a number of nodes, or the patience of the callers.
type Condition struct {
	Fault    cluster.Fault
	Bad      int
	Patience time.Duration
}

// over returns the matrix with its empty fields taken from another.
func (m Matrix) over(other Matrix) Matrix {
	return Matrix{
		Peers: either(m.Peers, other.Peers), Sizes: either(m.Sizes, other.Sizes), Nodes: either(m.Nodes, other.Nodes),
		Loads: either(m.Loads, other.Loads), Conditions: either(m.Conditions, other.Conditions),
		Longer: cmp.Or(m.Longer, other.Longer),
	}
}

// either returns the first list unless it is empty.
func either[T any](a, b []T) []T {
	if len(a) > 0 {
		return a
	}
	return b
}

// Plan returns the cells of one round, in the order of the report.
func (o Options) Plan() ([]cell.Cell, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	var cells []cell.Cell
	planned := map[string]bool{}
	for _, s := range Scenarios() {
		if len(o.Scenarios) > 0 && !slices.Contains(o.Scenarios, s.Name) {
			continue
		}
		for _, m := range o.matrices(s) {
			for _, c := range o.combinations(s, m) {
				if !planned[c.String()] {
					planned[c.String()] = true
					cells = append(cells, c)
				}
			}
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

// matrices returns the matrices of a scenario, as the options change them. A quick run has the first size of each, and
// the first peer unless peers are selected.
func (o Options) matrices(s Scenario) (ms []Matrix) {
	usual := Matrix{Nodes: []int{o.Nodes}, Conditions: []Condition{healthy}, Longer: 1}
	for _, m := range s.Cells {
		m = m.over(s.Cells[0]).over(usual)
		if o.Quick {
			m.Sizes, m.Longer = m.Sizes[:1], 1
		}
		if o.Quick && len(o.Peers) == 0 {
			m.Peers = m.Peers[:1]
		}
		ms = append(ms, m)
	}
	return ms
}

func (o Options) combinations(s Scenario, m Matrix) (cells []cell.Cell) {
	c := cell.Cell{Scenario: s.Name, Duration: o.Duration * time.Duration(m.Longer), TTL: cmp.Or(s.TTL, usualTTL)}
	if m.Loads[0].Held() {
		c.Duration = min(c.Duration, c.TTL/2) // what is held must not expire meanwhile
	}
	for _, c.Load = range m.Loads {
		for _, c.Nodes = range m.Nodes {
			for _, under := range m.Conditions {
				c.Fault, c.Bad, c.Patience = under.Fault, under.Bad, under.Patience
				for _, size := range m.Sizes {
					c.Callers, c.Processes = size.Callers, size.Processes
					c.Settle = cmp.Or(s.Settle, usualSettle) + time.Duration(size.Processes)*settlePerProcess
					for _, c.Peer = range m.Peers {
						if c.Bad <= (c.Nodes-1)/2 && (len(o.Peers) == 0 || slices.Contains(o.Peers, c.Peer)) {
							cells = append(cells, c)
						}
					}
				}
			}
		}
	}
	return cells
}

const (
	usualTTL    = 10 * time.Second
	usualSettle = 200 * time.Millisecond
	// settlePerProcess is the time for the start of one more process, which costs the others time.
	settlePerProcess = 25 * time.Millisecond
)

// mixed shuffles the groups of cells. Cells that are compared with each other stay together, so that the machine is
// in the same state for all of them.
func mixed(cells []cell.Cell) (order []cell.Cell) {
	groups := map[string][]cell.Cell{}
	var names []string
	for _, c := range cells {
		if groups[c.Group()] == nil {
			names = append(names, c.Group())
		}
		groups[c.Group()] = append(groups[c.Group()], c)
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		g := groups[name]
		rand.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		order = append(order, g...)
	}
	return order
}
