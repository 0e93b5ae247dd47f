package sim

import (
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// latchNode is a node's knowledge of the latch when it last answered.
type latchNode struct {
	// forgot is set if the node has ever lost its memory. Everything newer than certain, in tokens, it was told after
	// that, if at all.
	forgot  bool
	certain uint64

	generation, since uint64
	set, whole        bool
}

// forgetful is a node that has lost its memory and has not answered since.
var forgetful = latchNode{forgot: true, certain: math.MaxUint64}

func newLatchNode(s *node.LatchState) latchNode {
	began := max(s.Until-limits.Recovery().Microseconds(), 0)
	return latchNode{
		forgot: began > 0, certain: uint64(began + maxSkew.Microseconds()),
		generation: s.Generation, since: s.Since, set: s.Count > 0, whole: s.Whole,
	}
}

// unaware returns the nodes that may have forgotten parts of the latest generation. They have lost their memory,
// perhaps since it began, and have neither got it back nor been told since that the latch is set, while no node knows
// of an earlier time.
func unaware(nodes []latchNode) []bool {
	var latest, first uint64
	for _, n := range nodes {
		latest = max(latest, n.generation)
	}
	for _, n := range nodes {
		if n.set && n.generation == latest && (first == 0 || n.since < first) {
			first = n.since
		}
	}
	is := make([]bool, len(nodes))
	for i, n := range nodes {
		told := n.set && n.generation == latest && (n.whole || first > n.certain)
		is[i] = n.forgot && !told && latest <= n.certain
	}
	return is
}

// stuck is a period in which the latch could not be read, because too many nodes were unaware.
type stuck struct {
	from, to time.Duration
}

// knows records a node's knowledge from now on.
func (l *latchWitness) knows(server int, n latchNode, now time.Duration) {
	l.nodes[server] = n
	last := len(l.stuck) - 1
	was := last >= 0 && l.stuck[last].to == forever
	switch is := tooMany(unaware(l.nodes)); {
	case is && !was:
		l.stuck = append(l.stuck, stuck{now, forever})
	case was && !is:
		l.stuck[last].to = now
	}
}

// forever is the end of a period that has not ended.
const forever = time.Duration(math.MaxInt64)

// legible returns the longest period, between two times, in which the latch could be read because enough nodes were
// aware.
func (l *latchWitness) legible(from, to time.Duration) (longest time.Duration) {
	for _, s := range append(slices.Clone(l.stuck), stuck{from: to, to: forever}) {
		longest = max(longest, min(s.from, to)-from)
		from = max(from, s.to)
	}
	return longest
}
