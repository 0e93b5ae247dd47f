package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/peer"
)

// goal is a target of this library.
type goal struct {
	text string
	// value computes the measured figure; its Rounds is 0 if the figure was not measured.
	value func(all []*Row) Stat
	// low and high bound the median, unless they are 0.
	low, high float64
	// zero requires the figure to be 0 in every round.
	zero bool
}

const (
	reached    = "reached"
	notReached = "not reached"
	unknown    = "not measured"
)

func (g goal) verdict(s Stat) string {
	ok := s.Median >= g.low && (g.high == 0 || s.Median <= g.high)
	if g.zero {
		ok = s.Max == 0
	}
	switch {
	case s.Rounds == 0:
		return unknown
	case ok:
		return reached
	default:
		return notReached
	}
}

// goals lists the goals with their verdicts. Only a run for the goals lists goals that were not measured. A quick run
// has no goals: it is too short for a verdict.
func (r *Report) goals() Table {
	t := Table{Head: []string{"goal", "median", "least - most", "verdict"}}
	if r.options.Quick {
		return t
	}
	for _, g := range allGoals() {
		if s := g.value(r.rows); s.Rounds > 0 || r.options.Goals {
			t.Rows = append(t.Rows, []string{g.text, s.median(), s.extremes(), g.verdict(s)})
		}
	}
	return t
}

// Goals returns a table for a terminal: each goal, its measured figure, and whether the goal is reached.
func (r *Report) Goals() string {
	goals := r.goals()
	n := 0
	for _, row := range goals.Rows {
		if row[3] == reached {
			n++
		}
	}
	return fmt.Sprintf("%s%d of %d goals are reached\n", goals.plain(), n, len(goals.Rows))
}

// at selects a cell of this library. Fields that are not set match every cell.
type at struct {
	scenario, peer     string
	callers, processes int
	fault              cluster.Fault
	bad                int
}

// stat computes a figure from the selected row.
func (a at) stat(of func(r *Row, all []*Row) Stat) func([]*Row) Stat {
	return func(all []*Row) Stat {
		i := slices.IndexFunc(all, func(r *Row) bool {
			return r.Scenario == a.scenario && r.Peer == cmp.Or(a.peer, "redlock") && (a.callers == 0 || r.Callers == a.callers) &&
				r.Processes == max(1, a.processes) && r.Fault == a.fault && r.Bad == a.bad
		})
		if i < 0 {
			return Stat{}
		}
		return of(all[i], all)
	}
}

func (a at) own(of figure) func([]*Row) Stat {
	return a.stat(func(r *Row, _ []*Row) Stat { return r.stat(of) })
}

// times is the figure relative to another peer's.
func (a at) times(peer string, of figure) func([]*Row) Stat {
	return a.stat(func(r *Row, all []*Row) Stat { return r.ratio(r.by(all, peer), of) })
}

// healthy is the figure relative to the run without faults.
func (a at) healthy(of figure) func([]*Row) Stat {
	return a.stat(func(r *Row, all []*Row) Stat { return r.ratio(r.healthy(all), of) })
}

func allGoals() []goal {
	free := func(callers int) at { return at{scenario: "uncontended", callers: callers} }
	fresh := func(callers int) at { return at{scenario: "newnames", callers: callers} }
	pass := func(callers, processes int) at { return at{scenario: "passes", callers: callers, processes: processes} }
	turns := at{scenario: "passes", peer: "nohandover", callers: 64, processes: 8}
	waiters := func(processes int) at { return at{scenario: "waiters", callers: 200, processes: processes} }
	held := at{scenario: "held", callers: 100_000}
	perProcess := func(r cell.Result) float64 { return sentRate(r) / float64(r.Processes) }

	goals := []goal{
		{text: "1 caller: acquire p50 at most 1.15 times the floor's", value: free(1).times("floor", acquire(p50)), high: 1.15},
		{text: "16 callers: throughput at least 1.6 times the floor's", value: free(16).times("floor", rate), low: 1.6},
		{text: "128 callers: throughput at least 2 times the floor's", value: free(128).times("floor", rate), low: 2},
		{text: "128 callers: throughput at least 5.5 times redsync's", value: free(128).times("redsync", rate), low: 5.5},
		{text: "1,024 callers: throughput at least 2.3 times the floor's", value: free(1024).times("floor", rate), low: 2.3},
		{text: "128 callers: at most 12 allocations per operation", value: free(128).own(allocs), high: 12},
		{text: "128 callers: at most 20 us of client CPU per operation", value: free(128).own(client), high: 20},
		{text: "new names, 16 callers: throughput at least 1.3 times the floor's", value: fresh(16).times("floor", rate), low: 1.3},
		{text: "new names, 128 callers: throughput at least 2 times the floor's", value: fresh(128).times("floor", rate), low: 2},
	}
	for _, b := range []at{{fault: cluster.Hung, bad: 1}, {fault: cluster.Killed, bad: 2}, {fault: cluster.Slow, bad: 1}} {
		goals = append(goals, faultGoals(b)...)
	}
	return append(goals,
		goal{text: "forced pass, 2 in 2 processes: at least 0.8 of the queue's rate", value: pass(2, 2).times("queue", rate), low: 0.8},
		goal{text: "forced pass, 16 in 8 processes: at least 1.2 times the queue's rate", value: pass(16, 8).times("queue", rate), low: 1.2},
		goal{text: "forced pass, 64 in 8 processes: at least 9 times the queue's rate", value: pass(64, 8).times("queue", rate), low: 9},
		goal{text: "forced pass, 64 in 8 processes: at least 4 times redsync's rate", value: pass(64, 8).times("redsync", rate), low: 4},
		goal{text: "the same without hand-over: the least share at least 0.9", value: turns.own(shareMin), low: 0.9},
		goal{text: "the same without hand-over: the largest share at most 1.1", value: turns.own(shareMax), high: 1.1},
		goal{text: "200 waiters in 1 process: at most 2 commands a second and node", value: waiters(1).own(perProcess), high: 2},
		goal{text: "200 waiters in 8 processes: at most 2 commands a second, node and process", value: waiters(8).own(perProcess), high: 2},
		goal{text: "200 waiters in 200 processes: at most 100 scripts a second and node", value: waiters(200).own(scriptRate), high: 100},
		goal{text: "100,000 leases: fewer than 100 goroutines", value: held.own(goroutines), high: 99},
		goal{text: "100,000 leases: less than 1 KB of heap each", value: held.own(heapPerLease), high: 1023},
		goal{text: "100,000 leases: at most 1 command per node for 100 renewals", value: held.own(commandsPerRenewal), high: 0.01},
		goal{text: "100,000 leases: none is lost", value: held.own(lost), zero: true},
		goal{text: "3 to 9 nodes: CPU per operation and node at most that of 1 node", value: growth, high: 1},
		goal{text: "no lock of this library is held twice", value: violations, zero: true},
	)
}

// faultGoals returns the goals for a number of nodes that fail.
func faultGoals(a at) []goal {
	a.scenario, a.callers = "faults", 16
	name := cell.Cell{Fault: a.fault, Bad: a.bad}.Variant()
	return []goal{
		{text: name + ": throughput at least 0.95 of the healthy run", value: a.healthy(rate), low: 0.95},
		{text: name + ": acquire p99 at most 1.5 times that of the healthy run", value: a.healthy(acquire(p99)), high: 1.5},
		{text: name + ": release p99 at most 1.5 times that of the healthy run", value: a.healthy(release(p99)), high: 1.5},
		{text: name + ": no more goroutines after it than before", value: a.own(func(x cell.Result) float64 {
			return float64(max(0, x.Goroutines-x.GoroutinesBefore))
		}), zero: true},
		{text: name + ": no key left, with the nodes back and a TTL later", value: a.own(keysLeft), zero: true},
	}
}

// growth is the cost of an operation per node, relative to its cost on one node. It returns the largest ratio over
// all numbers of nodes. A ratio above 1 means that the cost grows faster than the number of nodes.
func growth(all []*Row) (worst Stat) {
	for _, r := range all {
		if r.Scenario != "nodes" || r.Peer != "redlock" || r.Nodes == 1 {
			continue
		}
		one := r.Cell
		one.Nodes = 1
		s := r.ratio(find(all, one), func(x cell.Result) float64 { return cpu(x) / float64(x.Nodes) })
		if s.Median > worst.Median {
			worst = s
		}
	}
	return worst
}

// violations counts the violations of this library's cells, in all rounds.
func violations(all []*Row) Stat {
	n, rounds := int64(0), 0
	for _, r := range all {
		if p, err := peer.Find(r.Peer); err == nil && p.Kind == peer.Ours {
			rounds = max(rounds, len(r.results))
			for _, x := range r.results {
				n += x.Violations
			}
		}
	}
	return Stat{Median: float64(n), Min: float64(n), Max: float64(n), Rounds: rounds}
}
