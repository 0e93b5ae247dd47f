package quorumlock

import (
	"github.com/quorumlock/quorumlock/node"
)

// latchGlance sums up the sizes of a latch on the nodes.
type latchGlance struct {
	// count is the number to which the latch is set. most is the largest size, sum the sum of all
	// sizes, and read the number of ids that were read of all nodes together.
	count, most, sum, read int
	// mayBeDone is set if the latch may be done by the sizes, forgetful if a node has lost its memory.
	mayBeDone, forgetful bool
}

// latchLooks decides when a waiter reads the ids of a latch. Mostly it never does: it glances at the
// sizes, and the latch is done once enough nodes have enough ids. It has to read where each of the
// nodes lacks some that others have, or where one has lost its memory and needs them all.
type latchLooks struct {
	last latchGlance
	// glances is how often it has glanced since it read the ids though the latch may be done, and
	// read how many these were: while the sizes come to that, there is nothing new to read.
	glances, read int
	// rest is how many glances it leaves a node that lost its memory to others, as its own help did
	// not arrive; pause is how many it is next time.
	rest, pause int
	// soon is set if it should look again sooner than usual: a node has as many ids as it takes.
	soon bool
}

// patientLooks is how many glances a waiter takes at most where the latch may be done and the sizes
// grow: as long as they do, a node that has enough of them is about to tell.
const patientLooks = 8

// worthwhile reports whether the waiter should read the ids, after a glance.
func (l *latchLooks) worthwhile(g latchGlance) bool {
	grows := g.sum != l.last.sum
	l.last, l.soon = g, g.mayBeDone && g.most >= g.count
	switch {
	case g.forgetful && l.rest == 0:
		return true
	case g.forgetful:
		l.rest--
	default:
		l.rest, l.pause = 0, 0
	}
	if !g.mayBeDone || g.sum == l.read {
		l.glances = 0
		return false
	}
	l.glances++
	return g.count <= node.MaxListed || !grows || l.glances >= patientLooks
}

// noted notes that the ids were read, with this result.
func (l *latchLooks) noted(g latchGlance, err error) {
	l.glances, l.read = 0, 0
	if err == nil {
		l.read = g.read
	}
	if g.forgetful {
		l.rest, l.pause = l.pause, min(2*l.pause+1, patientLooks)
	}
}
