package quorumlock

import "github.com/quorumlock/quorumlock/node"

// Renewals keep to the pace of the nodes. They come from a timer, so nothing else would slow them
// down where nodes cannot keep up: what is queued would grow until it is refused, and the
// renewals that count would stand behind others that are in vain. A renewal that is sent later
// is none the worse, as long as it comes before the end of the lease; and whatever the nodes can
// take, they take it in full batches.

// room reports whether a renewal that needs so many nodes is to be sent now: when so many
// take it, or when to wait would not help, as too many have failed. A node that is slow holds
// up nobody who can do without it.
func (c *Client) room(need int) bool {
	taking, full := 0, 0
	for _, l := range c.lanes {
		switch l.state() {
		case laneTakes:
			taking++
		case laneFull:
			full++
		case laneRefuses:
		}
	}
	return taking >= need || taking+full < need
}

// laneState is what a lane would do with a renewal.
type laneState uint8

const (
	laneTakes laneState = iota
	// laneFull: it has as many already as are good for it. There is a sender then, so it takes
	// the next batch, or fails, and has the scheduler look again in either case.
	laneFull
	laneRefuses
)

// state says what the lane would do with a renewal now.
func (l *lane) state() laneState {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed, l.overdue, l.resting(false):
		return laneRefuses
	case len(l.queue) >= maxQueue, l.renewals >= max(maxBatch, len(l.queue)-l.renewals):
		return laneFull
	default:
		return laneTakes
	}
}

// renewalsIn is how many of the calls are renewals.
func renewalsIn(calls []*call) (n int) {
	for _, c := range calls {
		if c.op.Kind == node.Renew {
			n++
		}
	}
	return n
}
