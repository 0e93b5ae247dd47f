package quorumlock

import (
	"slices"
	"time"

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
		switch state, takes := l.outlook(need); state {
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

// outlook says what the lane would do with a renewal now that needs so many nodes, and how long that
// takes if it goes on as lately: the exchange that is under way, those before it, and its own.
func (l *lane) outlook(need int) (laneState, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed, l.overdue, l.resting(false):
		return laneRefuses, 0
	case len(l.queue) >= maxQueue, l.hasEnough(need):
		return laneFull, 0
	default:
		return laneTakes, time.Duration(2+len(l.queue)/maxBatch) * l.health.mean
	}
}

// hasEnough reports whether the queue has as many renewals as are good for it, of those that need
// as many nodes. The others do not count: a lane with room for those who need all nodes is rare
// where others fill each that they find, and they would be crowded out. The mutex is held.
func (l *lane) hasEnough(need int) bool {
	mine := l.renewals[need]
	if mine < maxRenewals {
		return false
	}
	others := len(l.queue)
	for _, n := range l.renewals {
		others -= n
	}
	return mine >= others
}

// countRenewal counts a call that comes to the queue, or goes, if it renews. The mutex is held.
func (l *lane) countRenewal(c *call, by int) {
	if r, ok := c.sink.(*renewal); ok {
		l.renewals[r.tally.Need()] += by
	}
}
