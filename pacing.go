package quorumlock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Renewals keep to the pace of the nodes. They come from a timer, so nothing else would slow them
// down where nodes cannot keep up: what is queued would grow until it is refused, and the
// renewals that count would stand behind others that are in vain. A renewal that is sent later
// is none the worse, as long as it comes before the end of the lease; and whatever the nodes can
// take, they take it in full batches.

// noRoom is what a renewal takes for which there is no room yet.
const noRoom = never

// room is how long a renewal that needs so many nodes may take if it is sent now, or noRoom. It
// is to be sent when so many nodes take it, or when to wait would not help, as too many have
// failed. A node that is slow holds up nobody who can do without it.
func (c *Client) room(need int) time.Duration {
	var buf [quorum.MaxNodes]time.Duration
	taking, full := buf[:0], 0
	for _, l := range c.lanes {
		switch state, takes := l.outlook(); state {
		case laneTakes:
			taking = append(taking, takes)
		case laneFull:
			full++
		case laneRefuses:
		}
	}
	switch {
	case len(taking) >= need:
		slices.Sort(taking)
		return taking[need-1]
	case len(taking)+full >= need:
		return noRoom
	default:
		return 0
	}
}

// maxRenewals is how many renewals are good for a lane that has little else: it sends full batches
// then, and those who take locks leave most of it to those who hold some.
const maxRenewals = 2 * maxBatch

// laneState is what a lane would do with a renewal.
type laneState uint8

const (
	laneTakes laneState = iota
	// laneFull: it has as many already as are good for it. There is a sender then, so it takes
	// the next batch, or fails, and has the scheduler look again in either case.
	laneFull
	laneRefuses
)

// outlook says what the lane would do with a renewal now, and how long that takes if it goes on
// as lately: the exchange that is under way, those before it, and its own.
func (l *lane) outlook() (laneState, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed, l.overdue, l.resting(false):
		return laneRefuses, 0
	case len(l.queue) >= maxQueue, l.renewals >= max(maxRenewals, len(l.queue)-l.renewals):
		return laneFull, 0
	default:
		return laneTakes, time.Duration(2+len(l.queue)/maxBatch) * l.health.mean
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
