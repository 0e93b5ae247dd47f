package quorumlock

import (
	"github.com/quorumlock/quorumlock/node"
)

// latchGlance sums up the sizes of a latch on the nodes.
type latchGlance struct {
	// count is the number to which the latch is set, most the largest size, and sum the sum of all
	// sizes. read is how many ids were read, of all nodes together.
	count, most, sum, read int
	// mayBeDone is set if the latch may be done by the sizes, forgetful if a node has lost its
	// memory.
	mayBeDone, forgetful bool
}

// latchLooks decides when a waiter reads the ids of a latch. Usually it never does: it reads the
// sizes, and the latch is done once enough nodes have enough ids. It must read the ids if each node
// lacks some, or if a node has lost its memory and needs them all.
type latchLooks struct {
	last latchGlance
	// glances counts the glances at a latch that may be done, since the ids were read. read is how
	// many ids there were: while the sum of sizes equals it, there is nothing new to read.
	glances, read int
	// rest is for how many glances the waiter leaves a forgetful node to others, after its own
	// refill did not arrive. pause is the next rest.
	rest, pause int
	// soon is set if the waiter should ask again sooner than usual, since a node has enough ids.
	soon bool
}

// patientLooks bounds the glances at a latch that may be done while its sizes still grow. As long
// as they grow, a node with enough ids is about to report.
const patientLooks = 8

// shouldRead reports whether the waiter should read the ids after a glance.
func (l *latchLooks) shouldRead(g latchGlance) bool {
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

// recordRead records that the ids were read, with this result.
func (l *latchLooks) recordRead(g latchGlance, err error) {
	l.glances, l.read = 0, 0
	if err == nil {
		l.read = g.read
	}
	if g.forgetful {
		l.rest, l.pause = l.pause, min(2*l.pause+1, patientLooks)
	}
}
