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
	// Goals measures only the cells that the report's goals need, and Document also the cells that docs/benchmarks.md shows.
	Goals, Document bool
	// Seed determines the order of the cells.
	Seed uint64
}

// Matrix stands for all combinations of its fields. A matrix takes its empty fields from the first one of the scenario.
type Matrix struct {
	Peers []string
	// Sizes are the numbers of callers and processes.
	Sizes []Size
	// Nodes are the numbers of nodes; the flag decides if empty.
	Nodes []int
	Loads []cell.Load
	// Faults are the faults to measure with; none if empty.
	Faults []Breakage
	// Longer multiplies the measured time, and AtLeast is its lower bound.
	Longer  int
	AtLeast time.Duration
}

// Size is a number of callers, and the number of processes over which they are spread.
type Size struct{ Callers, Processes int }

// in returns sizes with that number of processes.
func in(processes int, callers ...int) (sizes []Size) {
	for _, n := range callers {
		sizes = append(sizes, Size{n, processes})
	}
	return sizes
}

// Breakage is a fault of a number of nodes, or a network that takes so long each way.
type Breakage struct {
	Fault   cluster.Fault
	Bad     int
	Network time.Duration
}

// over returns the matrix with its empty fields taken from another.
func (m Matrix) over(other Matrix) Matrix {
	return Matrix{
		Peers: either(m.Peers, other.Peers), Sizes: either(m.Sizes, other.Sizes), Nodes: either(m.Nodes, other.Nodes),
		Loads: either(m.Loads, other.Loads), Faults: either(m.Faults, other.Faults),
		Longer: cmp.Or(m.Longer, other.Longer), AtLeast: cmp.Or(m.AtLeast, other.AtLeast),
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

// matrices returns the matrices of a scenario, as the options change them.
func (o Options) matrices(s Scenario) (ms []Matrix) {
	selected := s.Full
	switch {
	case o.Document:
		selected = slices.Concat(s.Document, s.Goals)
	case o.Goals:
		selected = s.Goals
	case o.Quick:
		selected = s.Quick
	}
	usual := Matrix{Nodes: []int{o.Nodes}, Faults: []Breakage{{}}, Longer: 1}
	for _, m := range selected {
		m = m.over(s.Full[0]).over(usual)
		if o.Quick && len(o.Peers) > 0 {
			m.Peers = s.Full[0].Peers
		}
		if len(o.Callers) > 0 && !s.Fixed {
			m.Sizes = in(1, o.Callers...)
		}
		ms = append(ms, m)
	}
	return ms
}

// combinations returns all cells of a matrix.
func (o Options) combinations(s Scenario, m Matrix) (cells []cell.Cell) {
	for _, load := range m.Loads {
		for _, nodes := range m.Nodes {
			for _, b := range m.Faults {
				for _, size := range m.Sizes {
					for _, name := range m.Peers {
						if b.Bad > (nodes-1)/2 || len(o.Peers) > 0 && !slices.Contains(o.Peers, name) {
							continue
						}
						c := cell.Cell{
							Scenario: s.Name, Peer: name, Load: load, Callers: size.Callers, Processes: size.Processes, Nodes: nodes,
							Fault: b.Fault, Bad: b.Bad, Network: b.Network, Duration: o.duration(m, s.TTL), Settle: s.Settle + time.Duration(size.Processes)*settlePerProcess, TTL: s.TTL,
							Held: s.Held,
						}
						if c.Fault == cluster.Restarted {
							c.After = c.Duration / afterPart
						}
						cells = append(cells, c)
					}
				}
			}
		}
	}
	return cells
}

// settlePerProcess is the time for the start of one more process, which costs the others time.
const settlePerProcess = 25 * time.Millisecond

// afterPart is the part of the measured time after which a node is restarted. Other faults begin at once.
const afterPart = 4

// duration returns the measured time, short enough that a held lock does not expire meanwhile.
func (o Options) duration(m Matrix, ttl time.Duration) time.Duration {
	d := max(o.Duration*time.Duration(m.Longer), m.AtLeast)
	if slices.Contains(m.Loads, cell.Wait) {
		d = min(d, ttl/2)
	}
	return d
}

// mixed shuffles the groups of cells. Cells that are compared with each other stay together, so that the machine is
// in the same state for all of them.
func mixed(cells []cell.Cell, random *rand.Rand) (order []cell.Cell) {
	groups := map[string][]cell.Cell{}
	var names []string
	for _, c := range cells {
		if groups[c.Group()] == nil {
			names = append(names, c.Group())
		}
		groups[c.Group()] = append(groups[c.Group()], c)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		g := groups[name]
		random.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		order = append(order, g...)
	}
	return order
}
