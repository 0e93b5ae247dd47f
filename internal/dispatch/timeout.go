package dispatch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// alarm runs a function at an instant, or before. Its timer keeps running from one exchange to the next: resetting
// it for each would cost more than one firing too early now and then. The sender's mutex guards it.
type alarm struct {
	clock clock.Clock
	run   func()
	timer clock.Timer
	set   bool
	at    time.Duration
}

// arm makes sure that the function runs at an instant, or before. The function says by rung that it runs.
func (a *alarm) arm(now, at time.Duration) {
	switch {
	case a.set && a.at <= at:
		return
	case a.timer == nil:
		a.timer = a.clock.AfterFunc(at-now, a.run)
	default:
		a.timer.Reset(at - now)
	}
	a.set, a.at = true, at
}

func (a *alarm) rung() { a.set = false }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// rearmTimeoutLocked sets the timer to the next deadline, if there is one.
func (s *sender) rearmTimeoutLocked(now time.Duration) {
	for _, f := range s.flights.all {
		if f.deadline != 0 && !f.overdue {
			s.timeout.arm(now, f.deadline)
		}
	}
	if s.soonest != 0 {
		s.timeout.arm(now, max(s.soonest, now+minDeadlineGap))
	}
	if len(s.connects) > 0 {
		s.timeout.arm(now, s.connects[0].deadline)
	}
}

// onTimeout runs when calls, an exchange or a Connect may be overdue, and answers them.
func (s *sender) onTimeout() {
	s.mu.Lock()
	now := s.shared.env.Clock.Now()
	s.timeout.rung()
	s.expireConnectsLocked(now)
	late, unsent := s.expireLocked(now)
	var sent, queued []*Call
	reason, cause := node.ErrDown, node.ErrTimeout
	for _, f := range s.flights.all {
		if f.deadline == 0 || now < f.deadline || f.overdue {
			continue
		}
		if len(f.batch) == 0 && s.asking == connecting {
			reason, cause = node.ErrTimeout, ErrConnecting
		}
		sent = append(sent, s.overdueLocked(f)...)
		queued = append(queued, s.refuseQueueLocked(now)...)
	}
	s.rearmTimeoutLocked(now)
	if len(late)+len(unsent)+len(sent)+len(queued) > 0 {
		// A goroutine of its own, so that Close waits until the receivers are told. It starts before a sender
		// can end: one that has calls to tell has a goroutine.
		s.shared.goroutines.Go(func() error {
			s.fail(late, node.ErrTimeout, nil, false)
			s.fail(unsent, node.ErrBusy, node.ErrTimeout, true)
			s.fail(sent, node.ErrTimeout, nil, false)
			s.fail(queued, reason, cause, true)
			return nil
		})
	}
	s.mu.Unlock()
}

// overdueLocked records that an exchange is overdue. It returns the calls whose outcome is unknown.
// The goroutine stays with the exchange until the node's own timeout ends it.
func (s *sender) overdueLocked(f *flight) (sent []*Call) {
	s.flights.late(f)
	if len(f.batch) == 0 && s.asking == connecting {
		s.connectedLocked(s.connectTimeout())
	} else {
		s.health.late()
	}
	for _, c := range f.batch {
		if !c.answered {
			c.answered = true
			sent = append(sent, c)
		}
	}
	return sent
}

// refuseQueueLocked empties the queue of a node that failed. Undos are kept. It returns the calls
// whose receivers must be told.
func (s *sender) refuseQueueLocked(now time.Duration) (refused []*Call) {
	for _, c := range s.queue.clear() {
		if !c.answered {
			c.answered = true
			refused = append(refused, c)
		}
		if c.Until > 0 {
			s.keepLocked(c, now)
		}
	}
	s.shared.env.Events.CapacityFreed()
	return refused
}

// fail answers calls that the node has not answered.
func (s *sender) fail(calls []*Call, reason, err error, unsent bool) {
	for _, c := range calls {
		c.To.Answer(c, &wire.Reply{
			Err:    &node.Error{Node: s.node.Name(), Op: c.Op.Kind.String(), Reason: reason, Err: err},
			Unsent: unsent,
		})
	}
}

// A lock with a short TTL cannot wait for a node as long as other locks of the same client can.
// Its calls have deadlines of their own. A call whose deadline passes is answered then, and the
// exchange goes on for the others: neither the node nor the connection is given up for it.

// minDeadlineGap is the least time between two looks at deadlines: one look serves a crowd of calls.
const minDeadlineGap = time.Millisecond

// expectLocked makes sure that the timer fires by the deadline of a call, if the call has one.
func (s *sender) expectLocked(c *Call) {
	if c.Deadline == 0 || c.answered {
		return
	}
	if s.soonest == 0 || c.Deadline < s.soonest {
		s.soonest = c.Deadline
		s.timeout.arm(s.shared.env.Clock.Now(), c.Deadline)
	}
}

// expireLocked takes the calls whose deadlines have passed; the caller answers them. It returns
// sent calls and unsent ones. An unsent call leaves the queue, unless it is an undo.
func (s *sender) expireLocked(now time.Duration) (sent, unsent []*Call) {
	if s.soonest == 0 || now < s.soonest {
		return nil, nil
	}
	s.soonest = 0
	for _, f := range s.flights.all {
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
			s.queue.count(c, -1)
			return true
		}
		return c.place == withdrawn
	})
	s.queue.withdrawn = 0
	if len(unsent) > 0 {
		s.shared.env.Events.CapacityFreed()
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
