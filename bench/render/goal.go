package render

import (
	"cmp"
	"fmt"
	"slices"
)

// goal is a bound of a figure in one cell of this library.
type goal struct {
	scenario, peer string
	// size and variant select the cell, by the words of cell.Cell.
	size, variant, figure string
	// to is the peer, or the word healthy for the run without faults, that the figure is relative to, if any.
	to        string
	low, high float64 // bounds of the median; with worst, high bounds the largest value
	worst     bool
}

// goals are what this library should reach.
var goals = []goal{
	{"uncontended", "redlock", "1", "", "acquire p50 ms", "floor", 0, 1.15, false},
	{"uncontended", "redlock", "16", "", "ops/s", "floor", 1.6, 0, false},
	{"uncontended", "redlock", "128", "", "ops/s", "floor", 2, 0, false},
	{"uncontended", "redlock", "128", "", "ops/s", "redsync", 5.5, 0, false},
	{"uncontended", "redlock", "1024", "", "ops/s", "floor", 2.3, 0, false},
	{"uncontended", "redlock", "128", "", "allocs/op", "", 0, 12, false},
	{"uncontended", "redlock", "128", "", "client CPU us/op", "", 0, 20, false},
	{"newnames", "redlock", "16", "", "ops/s", "floor", 1.3, 0, false},
	{"newnames", "redlock", "128", "", "ops/s", "floor", 2, 0, false},
	{"faults", "redlock", "16", "1 hung", "ops/s", "healthy", .95, 0, false},
	{"faults", "redlock", "16", "1 hung", "acquire p99 ms", "healthy", 0, 1.5, false},
	{"faults", "redlock", "16", "1 hung", "release p99 ms", "healthy", 0, 1.5, false},
	{"faults", "redlock", "16", "1 hung", "goroutines more", "", 0, 0, true},
	{"faults", "redlock", "16", "1 hung", "keys left", "", 0, 0, true},
	{"faults", "redlock", "16", "2 killed", "ops/s", "healthy", .95, 0, false},
	{"faults", "redlock", "16", "2 killed", "acquire p99 ms", "healthy", 0, 1.5, false},
	{"faults", "redlock", "16", "2 killed", "release p99 ms", "healthy", 0, 1.5, false},
	{"faults", "redlock", "16", "2 killed", "goroutines more", "", 0, 0, true},
	{"faults", "redlock", "16", "2 killed", "keys left", "", 0, 0, true},
	{"faults", "redlock", "16", "1 slow", "ops/s", "healthy", .95, 0, false},
	{"faults", "redlock", "16", "1 slow", "acquire p99 ms", "healthy", 0, 1.5, false},
	{"faults", "redlock", "16", "1 slow", "release p99 ms", "healthy", 0, 1.5, false},
	{"faults", "redlock", "16", "1 slow", "goroutines more", "", 0, 0, true},
	{"faults", "redlock", "16", "1 slow", "keys left", "", 0, 0, true},
	{"passes", "redlock", "2 in 2", "", "ops/s", "queue", .8, 0, false},
	{"passes", "redlock", "16 in 8", "", "ops/s", "queue", 1.2, 0, false},
	{"passes", "redlock", "64 in 8", "", "ops/s", "queue", 9, 0, false},
	{"passes", "redlock", "64 in 8", "", "ops/s", "redsync", 4, 0, false},
	{"passes", "nohandover", "64 in 8", "", "least share", "", .9, 0, false},
	{"passes", "nohandover", "64 in 8", "", "largest share", "", 0, 1.1, false},
	{"waiters", "redlock", "200", "", "commands sent a second and node", "", 0, 2, false},
	{"waiters", "redlock", "200 in 8", "", "commands sent a second and node", "", 0, 16, false},
	{"waiters", "redlock", "200 in 200", "", "scripts a second and node", "", 0, 100, false},
	{"held", "redlock", "100000", "", "goroutines", "", 0, 99, false},
	{"held", "redlock", "100000", "", "heap bytes per lease", "", 0, 1023, false},
	{"held", "redlock", "100000", "", "commands per node and renewal", "", 0, .01, false},
	{"held", "redlock", "100000", "", "leases lost", "", 0, 0, true},
	{"nodes", "redlock", "128", "", "CPU us/op and node", "1 node", 0, 1, false},
	{"all", "all of this library", "", "", "violations", "", 0, 0, true},
}

const (
	reached    = "reached"
	notReached = "not reached"
	unknown    = "not measured"
)

func (g goal) verdict(s Stat) string {
	value := s.Median
	if g.worst {
		value = s.Max
	}
	switch {
	case s.Rounds == 0:
		return unknown
	case value < g.low || value > g.high && (g.high > 0 || g.worst):
		return notReached
	default:
		return reached
	}
}

// wanted says the bound in words.
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
		if g.scenario != "all" && !g.selects(r) || !ours(r.Peer) {
			continue
		}
		s := r.stat(f)
		if g.to != "" {
			s = r.ratio(g.reference(r, all), f)
		}
		if worst.Rounds == 0 || s.Max > worst.Max && g.worst || s.Median > worst.Median && !g.worst {
			worst = s
		}
	}
	return worst
}

func (g goal) selects(r *Row) bool {
	return r.Scenario == g.scenario && r.Peer == g.peer && r.Size() == g.size && r.Variant() == cmp.Or(g.variant, "healthy") &&
		(g.to != "1 node" || r.Nodes > 1)
}

// reference is the row that the figure of a row is relative to, or nil.
func (g goal) reference(r *Row, all []*Row) *Row {
	switch g.to {
	case "healthy":
		return r.healthy(all)
	case "1 node":
		one := r.Cell
		one.Nodes = 1
		return find(all, one)
	default:
		return r.by(all, g.to)
	}
}

// goals returns a line for each goal, without a head. Only a run for the goals lists goals that were not measured. A
// quick run has no goals: it is too short for a verdict.
func (r *Report) goals() (lines [][]string) {
	for _, g := range goals {
		if s := g.value(r.rows); !r.options.Quick && (s.Rounds > 0 || r.options.Goals) {
			lines = append(lines, []string{
				g.scenario, g.size, g.variant, g.peer, g.figure, g.wanted(), s.median(), s.extremes(), g.verdict(s),
			})
		}
	}
	return lines
}

// Goals returns a table of the goals: the measured figure, and whether the goal is reached.
func (r *Report) Goals() string {
	lines := r.goals()
	n := 0
	for _, line := range lines {
		if slices.Contains(line, reached) {
			n++
		}
	}
	head := []string{"scenario", "callers", "variant", "peer", "figure", "goal", "median", "least - most", "verdict"}
	return fmt.Sprintf("%s\n%d of %d goals are reached.\n", markdown(append([][]string{head}, lines...)), n, len(lines))
}
