package render

import (
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

// goals lists the goals with their verdicts. Without goalsOnly, it leaves out goals that were not measured.
func (r *Report) goals() Table {
	t := Table{Head: []string{"goal", "median", "least - most", "verdict"}}
	for _, g := range allGoals() {
		if s := g.value(r.rows); s.Rounds > 0 || r.goalsOnly {
			t.Rows = append(t.Rows, []string{g.text, s.median(), s.extremes(), g.verdict(s)})
		}
	}
	return t
}

// Goals returns a table for a terminal: each goal, its measured figure, and whether the goal is reached.
func (r *Report) Goals() string { return r.goals().plain() }

func allGoals() []goal {
	goals := []goal{
		{text: "1 caller: acquire p50 at most 1.15 times the floor's", value: compared(1, "floor", acquire(p50)), high: 1.15},
		{text: "16 callers: throughput at least 1.6 times the floor's", value: compared(16, "floor", rate), low: 1.6},
		{text: "128 callers: throughput at least 2 times the floor's", value: compared(128, "floor", rate), low: 2},
		{text: "128 callers: throughput at least 5.5 times redsync's", value: compared(128, "redsync", rate), low: 5.5},
		{text: "1,024 callers: throughput at least 2.3 times the floor's", value: compared(1024, "floor", rate), low: 2.3},
		{text: "128 callers: at most 12 allocations per operation", value: own("uncontended", 128, allocs), high: 12},
		{text: "128 callers: at most 20 us of client CPU per operation", value: own("uncontended", 128, client), high: 20},
	}
	for _, b := range []struct {
		fault cluster.Fault
		bad   int
	}{{cluster.Hung, 1}, {cluster.Killed, 2}, {cluster.Slow, 1}} {
		goals = append(goals, faultGoals(b.fault, b.bad)...)
	}
	return append(goals,
		goal{text: "forced pass among 64 in 8 processes: at least 4 times redsync's rate", value: forced("redlock", func(r *Row, all []*Row) Stat {
			return r.ratio(r.by(all, "redsync"), rate)
		}), low: 4},
		goal{text: "the same in fair order: the least share at least 0.9", value: forced("fair", func(r *Row, _ []*Row) Stat {
			return r.stat(func(x cell.Result) float64 { return x.ShareMin })
		}), low: 0.9},
		goal{text: "the same in fair order: the largest share at most 1.1", value: forced("fair", func(r *Row, _ []*Row) Stat {
			return r.stat(func(x cell.Result) float64 { return x.ShareMax })
		}), high: 1.1},
		goal{text: "200 waiters in 1 process: at most 2 commands a second and node", value: waiters(1), high: 2},
		goal{text: "200 waiters in 8 processes: at most 2 commands a second, node and process", value: waiters(8), high: 2},
		goal{text: "100,000 leases: fewer than 100 goroutines", value: own("held", 100_000, func(r cell.Result) float64 { return float64(r.GoroutinesAfter) }), high: 99},
		goal{text: "100,000 leases: less than 1 KB of heap each", value: own("held", 100_000, func(r cell.Result) float64 { return r.HeapPerLease }), high: 1023},
		goal{text: "100,000 leases: at most 1 command per node for 100 renewals", value: own("held", 100_000, func(r cell.Result) float64 { return r.CommandsPerRenewal }), high: 0.01},
		goal{text: "100,000 leases: none is lost", value: own("held", 100_000, func(r cell.Result) float64 { return float64(r.Lost) }), zero: true},
		goal{text: "3 to 9 nodes: CPU per operation and node at most that of 1 node", value: growth, high: 1},
		goal{text: "no lock of this library is held twice", value: violations, zero: true},
	)
}

func allocs(r cell.Result) float64 { return r.Allocs }
func client(r cell.Result) float64 { return r.Client }

// faultGoals returns the goals for a number of nodes that fail.
func faultGoals(fault cluster.Fault, bad int) []goal {
	name := cell.Cell{Fault: fault, Bad: bad}.Variant()
	with := func(of func(r *Row, all []*Row) Stat) func([]*Row) Stat {
		return pick(of, func(r *Row) bool {
			return r.Scenario == "faults" && r.Peer == "redlock" && r.Fault == fault && r.Bad == bad
		})
	}
	toHealthy := func(of func(cell.Result) float64) func([]*Row) Stat {
		return with(func(r *Row, all []*Row) Stat { return r.ratio(r.healthy(all), of) })
	}
	return []goal{
		{text: name + ": throughput at least 0.95 of the healthy run", value: toHealthy(rate), low: 0.95},
		{text: name + ": acquire p99 at most 1.5 times that of the healthy run", value: toHealthy(acquire(p99)), high: 1.5},
		{text: name + ": release p99 at most 1.5 times that of the healthy run", value: toHealthy(release(p99)), high: 1.5},
		{text: name + ": no more goroutines after it than before", value: with(func(r *Row, _ []*Row) Stat {
			return r.stat(func(x cell.Result) float64 { return float64(max(0, x.GoroutinesAfter-x.GoroutinesBefore)) })
		}), zero: true},
		{text: name + ": no key left, with the nodes back and a TTL later", value: with(func(r *Row, _ []*Row) Stat {
			return r.stat(func(x cell.Result) float64 { return float64(x.KeysLeft) })
		}), zero: true},
	}
}

// pick applies a goal to the first row that matches.
func pick(of func(r *Row, all []*Row) Stat, meant func(*Row) bool) func([]*Row) Stat {
	return func(all []*Row) Stat {
		for _, r := range all {
			if meant(r) {
				return of(r, all)
			}
		}
		return Stat{}
	}
}

// compared is a figure of this library relative to another peer, with free locks.
func compared(callers int, to string, of func(cell.Result) float64) func([]*Row) Stat {
	return pick(func(r *Row, all []*Row) Stat { return r.ratio(r.by(all, to), of) }, ofOurs("uncontended", callers))
}

// own is a figure of this library.
func own(scenario string, callers int, of func(cell.Result) float64) func([]*Row) Stat {
	return pick(func(r *Row, _ []*Row) Stat { return r.stat(of) }, ofOurs(scenario, callers))
}

func ofOurs(scenario string, callers int) func(*Row) bool {
	return func(r *Row) bool { return r.Scenario == scenario && r.Callers == callers && r.Peer == "redlock" }
}

// forced is a figure of the largest forced pass.
func forced(name string, of func(r *Row, all []*Row) Stat) func([]*Row) Stat {
	return pick(of, func(r *Row) bool {
		return r.Load == cell.Pass && r.Callers == 64 && r.Processes == 8 && r.Peer == name
	})
}

// waiters is the cost of waiting on each node, for each process.
func waiters(processes int) func([]*Row) Stat {
	return pick(func(r *Row, _ []*Row) Stat {
		return r.stat(func(x cell.Result) float64 { return x.SentRate / float64(processes) })
	}, func(r *Row) bool {
		return r.Scenario == "waiters" && r.Callers == 200 && r.Processes == processes && r.Peer == "redlock"
	})
}

// growth is the cost of an operation per node, relative to its cost on one node. It returns the largest ratio over
// all numbers of nodes. A ratio above 1 means that the cost grows faster than the number of nodes.
func growth(all []*Row) (worst Stat) {
	var one *Row
	var several []*Row
	for _, r := range all {
		switch {
		case r.Scenario != "nodes" || r.Peer != "redlock":
		case r.Nodes == 1:
			one = r
		default:
			several = append(several, r)
		}
	}
	for _, r := range several {
		s := r.ratio(one, func(x cell.Result) float64 { return cpu(x) / float64(x.Nodes) })
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
