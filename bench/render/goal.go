package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/bench/peer"
)

// goal is a bound of a figure in one cell of this library.
type goal struct {
	scenario, peer string
	// size and variant select the cell, by the words of cell.Cell.
	size, variant, figure string
	// to says what the figure is relative to, if anything, by the words of Row.reference.
	to        string
	low, high float64 // bounds of the median; high bounds the largest value of a worst figure
}

var goals = slices.Concat([]goal{
	// One caller.
	{"newnames", "redlock", "1", "", "acquire p50 ms", "floor", 0, 1.3},
	{"newnames", "redlock", "1", "", "acquire p50 ms", "redsync", 0, 1},
	{"newnames", "multilock", "1", "", "acquire p50 ms", "floor-all", 0, 1.3},
	{"newnames", "redlock", "1", "", "client CPU us/op", "", 0, 200},
	{"newnames", "redlock", "1", "", "server CPU us/op", "", 0, 310},
	// The crowd, with many names.
	{"newnames", "redlock", "16", "", "ops/s", "floor-group", .85, 0},
	{"newnames", "redlock", "128", "", "ops/s", "floor-group", .85, 0},
	{"newnames", "redlock", "1024", "", "ops/s", "128 callers", 1, 0},
	{"newnames", "redlock", "16", "", "ops/s", "floor", 1.3, 0},
	{"newnames", "redlock", "128", "", "ops/s", "floor", 2, 0},
	{"uncontended", "redlock", "16", "", "ops/s", "floor", 1.6, 0},
	{"uncontended", "redlock", "128", "", "ops/s", "floor", 2, 0},
	{"uncontended", "redlock", "128", "", "ops/s", "redsync", 5.5, 0},
	{"uncontended", "redlock", "1024", "", "ops/s", "floor", 2.3, 0},
	{"uncontended", "redlock", "128", "", "allocs/op", "", 0, 12},
	{"uncontended", "redlock", "128", "", "client CPU us/op", "", 0, 20},
	{"overload", "redlock", "512", "10ms of patience", "ops/s", "64 callers", .8, 0},
	{"overload", "redlock", "4096", "50ms of patience", "ops/s", "64 callers", .6, 0},
	// Everything in a batch.
	{"kinds", "semaphore", "128", "", "server CPU us/op", "redlock", 0, 1.5},
	{"kinds", "rwlock-readers", "128", "", "server CPU us/op", "redlock", 0, 1.5},
	{"kinds", "kinds", "128", "", "server CPU us/op", "redlock", 0, 1.5},
	{"denials", "full-1024", "16", "", "server CPU us/op", "", 0, 60},
	// Passing on, and waiting.
	{"passes", "redlock", "2 in 2", "", "ops/s", "queue", .8, 0},
	{"passes", "redlock", "16 in 8", "", "ops/s", "queue", 1, 0},
	{"passes", "redlock", "64 in 8", "", "ops/s", "queue", 9, 0},
	{"passes", "redlock", "64 in 8", "", "ops/s", "redsync", 4, 0},
	{"passes", "redlock", "16 in 8", "", "least share", "", .9, 0},
	{"passes", "redlock", "16 in 8", "", "largest share", "", 0, 1.1},
	{"passes", "nohandover", "64 in 8", "", "least share", "", .9, 0},
	{"passes", "nohandover", "64 in 8", "", "largest share", "", 0, 1.1},
	{"waiters", "redlock", "200", "", "commands sent a second and node", "", 0, 2},
	{"waiters", "redlock", "200 in 8", "", "commands sent a second and node", "", 0, 16},
	{"waiters", "redlock", "200 in 200", "", "scripts a second and node", "", 0, 100},
	{"waiters", "redlock", "1000", "", "scripts a second and node", "", 0, 20},
	// Holding, and growing.
	{"held", "redlock", "100000", "", "goroutines", "", 0, 99},
	{"held", "redlock", "100000", "", "heap bytes per lease", "", 0, 1023},
	{"held", "redlock", "100000", "", "commands per node and renewal", "", 0, .01},
	{"held", "redlock", "100000", "", "leases lost", "", 0, 0},
	{"nodes", "redlock", "128", "", "CPU us/op and node", "1 nodes", 0, 1},
	{"all", "all of this library", "", "", "violations", "", 0, 0},
}, despite("1 hung"), despite("2 killed"), despite("1 slow"))

// despite are the goals while nodes fail: callers do not notice it, and nothing is left behind.
func despite(fault string) []goal {
	return []goal{
		{"faults", "redlock", "16", fault, "ops/s", "healthy", .95, 0},
		{"faults", "redlock", "16", fault, "acquire p99 ms", "healthy", 0, 1.5},
		{"faults", "redlock", "16", fault, "release p99 ms", "healthy", 0, 1.5},
		{"faults", "redlock", "16", fault, "goroutines more", "", 0, 0},
		{"faults", "redlock", "16", fault, "keys left", "", 0, 0},
	}
}

const (
	reached    = "reached"
	notReached = "not reached"
	unknown    = "not measured"
)

func (g goal) verdict(s Stat) string {
	value, worst := s.Median, named(g.figure).worst
	if worst {
		value = s.Max
	}
	switch {
	case s.Rounds == 0:
		return unknown
	case value < g.low || value > g.high && (g.high > 0 || worst):
		return notReached
	default:
		return reached
	}
}

func (g goal) wanted() string {
	bound := "at least " + short(g.low)
	if g.low == 0 {
		bound = "at most " + short(g.high)
	}
	if g.to != "" {
		bound += " x " + g.to
	}
	return bound
}

// value is the figure, over the rounds, and the worst over the cells if several match. Its Rounds is 0 if it was not
// measured.
func (g goal) value(all []*Row) (worst Stat) {
	f := named(g.figure)
	for _, r := range all {
		if !g.selects(r) {
			continue
		}
		s := g.of(r, all)
		if worst.Rounds == 0 || s.Max > worst.Max && f.worst || s.Median > worst.Median && !f.worst {
			worst = s
		}
	}
	return worst
}

// of is the figure of one cell.
func (g goal) of(r *Row, all []*Row) Stat {
	if f := named(g.figure); g.to != "" {
		return r.ratio(r.reference(all, g.to), f)
	}
	return r.stat(named(g.figure))
}

func (g goal) selects(r *Row) bool {
	if g.scenario == "all" {
		p, err := peer.Find(r.Peer)
		return err == nil && p.Ours
	}
	return r.Scenario == g.scenario && r.Peer == g.peer && r.Size() == g.size && r.Variant() == cmp.Or(g.variant, "healthy") &&
		(g.to != "1 nodes" || r.Nodes > 1)
}

// Goals returns a table of the goals: the measured figure, and whether the goal is reached. Only a run of all
// cells lists goals that were not measured. A second table explains the missed goals.
func (r *Report) Goals() string {
	lines := [][]string{{"scenario", "callers", "variant", "peer", "figure", "goal", "median", "least - most", "verdict"}}
	n := 0
	for _, g := range goals {
		s := g.value(r.rows)
		if s.Rounds == 0 && !r.options.All() {
			continue
		}
		verdict := g.verdict(s)
		if verdict == reached {
			n++
		}
		lines = append(lines, []string{
			g.scenario, g.size, g.variant, g.peer, g.figure, g.wanted(), s.median(), s.extremes(), verdict,
		})
	}
	return fmt.Sprintf("%s\n%d of %d goals are reached.\n%s", markdown(lines), n, len(lines)-1, r.counts())
}
