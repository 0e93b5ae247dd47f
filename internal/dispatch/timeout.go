package dispatch

import (
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// startTimeoutLocked starts the timeout of an exchange that begins now. The timer keeps running
// from one exchange to the next: resetting it for each would cost more than one firing too
// early now and then.
func (s *sender) startTimeoutLocked(now time.Duration) {
	s.began, s.deadline = now, now+s.health.timeout
	if !s.timerSet || s.timerAt > s.deadline {
		s.armTimeoutLocked(now)
	}
}

func (s *sender) armTimeoutLocked(now time.Duration) {
	s.timerSet, s.timerAt = true, s.deadline
	if s.timer == nil {
		s.timer = s.nodes.env.Clock.AfterFunc(s.deadline-now, s.onTimeout)
	} else {
		s.timer.Reset(s.deadline - now)
	}
}

// stopTimeoutLocked ends the timeout, and reports whether the exchange was overdue.
func (s *sender) stopTimeoutLocked() (overdue bool) {
	overdue = s.overdue
	s.deadline, s.overdue = 0, false
	return overdue
}

// onTimeout runs when an exchange may be overdue. The receivers of its calls are told that the
// outcome is unknown, and the receivers of queued calls that the node was not asked. The sender's
// goroutine stays with the exchange until the node's own timeout ends it.
func (s *sender) onTimeout() {
	s.mu.Lock()
	now := s.nodes.env.Clock.Now()
	s.timerSet = false
	if s.deadline == 0 || now < s.deadline || s.overdue {
		if s.deadline != 0 && !s.overdue {
			s.armTimeoutLocked(now) // an exchange began after the timer was set
		}
		s.mu.Unlock()
		return
	}
	s.overdue = true
	s.health.late()
	var sent []*Call
	for _, c := range s.inFlight {
		if !c.answered {
			c.answered = true
			sent = append(sent, c)
		}
	}
	queued := s.refuseQueueLocked(now)
	s.mu.Unlock()

	s.fail(sent, node.ErrTimeout, nil, false)
	s.fail(queued, node.ErrDown, node.ErrTimeout, true)
}

// refuseQueueLocked empties the queue of a node that failed. Undos are kept. It returns the calls
// whose receivers must be told.
func (s *sender) refuseQueueLocked(now time.Duration) (refused []*Call) {
	for _, c := range s.queue {
		if !c.answered {
			c.answered = true
			refused = append(refused, c)
		}
		if c.Until > 0 {
			s.keepLocked(c, now)
		}
	}
	clear(s.queue)
	s.queue = s.queue[:0]
	clear(s.renewals)
	s.nodes.env.Events.CapacityFreed()
	return refused
}

// fail answers calls that the node has not answered.
func (s *sender) fail(calls []*Call, reason, err error, unsent bool) {
	for _, c := range calls {
		c.To.Answer(c, &node.Reply{
			Err:    &node.Error{Node: s.node.Name(), Op: c.Op.Kind, Reason: reason, Err: err},
			Unsent: unsent,
		})
	}
}
