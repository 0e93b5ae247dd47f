package dispatch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A lock with a short TTL cannot wait for a node as long as other locks of the same client can.
// Its calls have deadlines of their own. A call whose deadline passes is answered then, and the
// exchange goes on for the others: neither the node nor the connection is given up for it.

// minDeadlineGap is the least time between two looks at deadlines: one look serves a crowd of calls.
const minDeadlineGap = time.Millisecond

// LateReceiver is a [Receiver] that can use an answer that comes after the deadline of its call.
type LateReceiver interface {
	// AnswerLate is called at most once for a call, after Answer said that its outcome is
	// unknown. The rules of Answer hold.
	AnswerLate(c *Call, r *wire.Reply)
}

// expectLocked makes sure that the timer fires by the deadline of a call, if the call has one.
func (s *sender) expectLocked(c *Call) {
	if c.Deadline == 0 || c.answered {
		return
	}
	if s.soonest == 0 || c.Deadline < s.soonest {
		s.soonest = c.Deadline
		s.armTimeoutLocked(s.nodes.env.Clock.Now(), c.Deadline)
	}
}

// expireLocked takes the calls whose deadlines have passed; the caller answers them. It returns
// sent calls and unsent ones. An unsent call leaves the queue, unless it is an undo.
func (s *sender) expireLocked(now time.Duration) (sent, unsent []*Call) {
	if s.soonest == 0 || now < s.soonest {
		return nil, nil
	}
	s.soonest = 0
	for _, f := range s.flights {
		if f.deadline == 0 { // its receivers are being told
			continue
		}
		for _, c := range f.batch {
			if s.isLateLocked(c, now) {
				c.late = true
				sent = append(sent, c)
			}
		}
	}
	for _, c := range s.queue.undos {
		if s.isLateLocked(c, now) {
			unsent = append(unsent, c)
		}
	}
	s.queue.calls = slices.DeleteFunc(s.queue.calls, func(c *Call) bool {
		late := c.place != withdrawn && s.isLateLocked(c, now)
		if late {
			unsent = append(unsent, c)
		}
		if late && c.Until == 0 {
			s.countRenewalLocked(c, -1)
			return true
		}
		return c.place == withdrawn
	})
	s.queue.withdrawn = 0
	if len(unsent) > 0 {
		s.nodes.env.Events.CapacityFreed()
	}
	return sent, unsent
}

// isLateLocked reports whether a call has no answer yet and its deadline has passed. It marks such
// a call as answered. Of the other calls it notes the earliest deadline.
func (s *sender) isLateLocked(c *Call, now time.Duration) bool {
	switch {
	case c.answered || c.Deadline == 0:
		return false
	case c.Deadline <= now:
		c.answered = true
		return true
	case s.soonest == 0 || c.Deadline < s.soonest:
		s.soonest = c.Deadline
	}
	return false
}
