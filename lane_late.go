package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// A lock with a short TTL cannot wait for a node as long as others of the same client can. Its
// calls have deadlines of their own. A call whose deadline passes is answered then, and the
// exchange goes on for the others: neither the node nor the connection is given up for it.

// deadline is when the operations of the lock that begin now count a node as late: after a third
// of the TTL. It is 0 where the timeout of the client is not longer than that.
func (l *Lock) deadline(now time.Duration) time.Duration {
	patience := (l.ttl / 3).Truncate(time.Millisecond)
	if patience >= l.client.cfg.NodeTimeoutMax {
		return 0
	}
	return now + patience
}

// expect sets the watchdog to the deadline of a call, if the call has one. The mutex is held.
func (l *lane) expect(c *call) {
	if c.deadline == 0 || c.told {
		return
	}
	if l.soonest == 0 || c.deadline < l.soonest {
		l.soonest = c.deadline
		l.guard(l.client.clock.Now(), c.deadline)
	}
}

// giveUp takes the calls whose deadlines have passed, for the caller to answer them. It returns
// sent calls and unsent ones. An unsent call leaves the queue, unless it is an undo. The mutex
// is held.
func (l *lane) giveUp(now time.Duration) (sent, unsent []*call) {
	if l.soonest == 0 || now < l.soonest {
		return nil, nil
	}
	l.soonest = 0
	for _, c := range l.inFlight {
		if l.isLate(c, now) {
			c.late = true
			sent = append(sent, c)
		}
	}
	rest := l.queue[:0]
	for _, c := range l.queue {
		late := l.isLate(c, now)
		if late {
			unsent = append(unsent, c)
		}
		if late && c.until == 0 {
			l.countRenewal(c, -1)
		} else {
			rest = append(rest, c)
		}
	}
	clear(l.queue[len(rest):])
	l.queue = rest
	if len(unsent) > 0 {
		l.client.schedule.look()
	}
	return sent, unsent
}

// isLate reports whether a call has no answer yet and its deadline has passed. It marks such a
// call as told. Of the other calls it notes the earliest deadline. The mutex is held.
func (l *lane) isLate(c *call, now time.Duration) bool {
	switch {
	case c.told || c.deadline == 0:
		return false
	case c.deadline <= now:
		c.told = true
		return true
	case l.soonest == 0 || c.deadline < l.soonest:
		l.soonest = c.deadline
	}
	return false
}

// belated is the answer of a node that had been counted as late. A grant is being undone by now.
// A renewal is not, so the confirmation counts, as long as the lease is valid.
func (c *call) belated(reply *node.Reply) {
	if r, ok := c.sink.(*renewal); ok {
		r.hold.belated(c, reply)
	}
}

func (h *hold) belated(c *call, reply *node.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == held {
		h.note(c.lane(), c.sent, reply)
		h.straggle()
	}
}
