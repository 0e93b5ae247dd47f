package sim

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchMemory is the nodes' knowledge of the latch, and their losses of it. It decides which promises hold.
type latchMemory struct {
	mu    sync.Mutex
	ended bool
	// set is set once a client has begun to set the latch.
	set bool
	// forgot marks nodes that have lost their memory since, and have not got it back.
	forgot []bool
	// nodes are the nodes' knowledge. stuck are the periods in which too few nodes knew enough to read the latch.
	nodes []latchNode
	stuck []stuck
	// excused is set if too many nodes have forgotten: the latch may be lost.
	excused bool
}

// begins records the begin of a call.
func (l *latchMemory) begins(kind history.Kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = l.set || kind == history.Set
}

// ends ignores what happens later.
func (l *latchMemory) ends() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *latchMemory) init(c *Case) {
	l.forgot, l.nodes = make([]bool, len(c.Nodes)), make([]latchNode, len(c.Nodes))
	for i := range l.nodes {
		if !c.Opened {
			l.knows(i, forgetful, 0)
		}
	}
}

// lost records that a node has lost its memory. That may be one too many.
func (l *latchMemory) lost(w *world, server int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.knows(server, forgetful, w.now())
	l.forgot[server] = l.set
	l.excused = l.excused || tooMany(l.forgot)
}

// tooMany reports whether the remaining nodes are no majority.
func tooMany(nodes []bool) bool {
	n := 0
	for _, is := range nodes {
		if is {
			n++
		}
	}
	return n > len(nodes)-quorum.Majority().Need(len(nodes))
}

// answered updates the memory from a node's answer: the node got back its memory, or knows of a later deletion. If
// it has recovered and was told nothing, no client has used the latch. Then the latch may count as never set.
func (l *latchMemory) answered(w *world, server int, r node.Reply) {
	s := r.Latch
	if s == nil || r.Err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	n := newLatchNode(s)
	l.knows(server, n, w.now())
	switch {
	case !l.forgot[server]:
	case s.Whole, s.Generation > n.certain:
		l.forgot[server] = false
	case s.Count == 0 && r.Recovering == 0:
		l.excused = true
	}
}

// unreadable checks whether the latch may be unreadable at the end.
func (l *latchMemory) unreadable(w *world, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.excused && !tooMany(unaware(l.nodes)) {
		w.violated(Progress, "R and 2 s after the faults the latch cannot be read: %v", err)
	}
}

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
func (l *latchMemory) knows(server int, n latchNode, now time.Duration) {
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
func (l *latchMemory) legible(from, to time.Duration) (longest time.Duration) {
	for _, s := range append(slices.Clone(l.stuck), stuck{from: to, to: forever}) {
		longest = max(longest, min(s.from, to)-from)
		from = max(from, s.to)
	}
	return longest
}
