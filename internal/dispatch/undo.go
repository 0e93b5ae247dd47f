package dispatch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// deferUndoLocked keeps an undo that cannot be sent now. During a probe it goes behind the calls
// that are queued for the end of the probe: a release that overtakes its own acquisition or
// renewal would leave the lock behind.
func (s *sender) deferUndoLocked(c *Call) {
	if s.health.down && s.workers > 0 && !s.closed {
		s.queue.calls = append(s.queue.calls, c)
		return
	}
	s.keepLocked(c, s.shared.env.Clock.Now())
}

// maxKept bounds the undos that are kept for one node. Beyond it, keys expire by themselves.
const maxKept = 1 << 16

// keepLocked sets an undo that failed aside, unless its keys have expired by now, or nothing
// more can be sent to the node.
func (s *sender) keepLocked(c *Call, now time.Duration) {
	switch {
	case now >= c.Until:
		return
	case s.closed, s.gone, len(s.kept) >= maxKept:
		if c.Op.Kind == wire.Release || c.Op.Kind == wire.Shorten {
			s.dropped, s.droppedUntil = s.dropped+1, max(s.droppedUntil, c.Until)
		}
		return
	}
	c.retried = false
	if c.Op.Waiter.Keep != 0 {
		// The waiter may be gone by then, so the repeated undo removes its entry. The call is
		// copied, as its receiver may be reading it.
		op, again := *c.Op, *c
		op.Waiter.Keep = 0
		again.Op, again.answered = &op, true
		c = &again
	}
	s.kept = append(s.kept, c)
	s.armRetryLocked()
}

// armRetryLocked sets the timer that repeats the kept undos: when a node that is down may be asked
// again, or after a pause if the node answers but rejects them. A later undo does not delay
// an earlier one.
func (s *sender) armRetryLocked() {
	now := s.shared.env.Clock.Now()
	at := now + probePauseMax
	if s.health.down {
		at = max(s.health.probeAt, now+time.Millisecond)
	}
	s.retry.arm(now, at)
}

// retryKept queues kept undos again, unless it is too early to ask the node. A node that
// answers but rejects undos gets a single one: the others follow when that succeeds.
func (s *sender) retryKept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retry.rung()
	now := s.shared.env.Clock.Now()
	s.dropMootLocked(now)
	switch {
	case len(s.kept) == 0:
	case !s.health.down && s.flights.overdue == 0:
		s.kept[0].retried = true
		s.queue.undos = append(s.queue.undos, s.kept[0])
		s.kept = slices.Delete(s.kept, 0, 1)
		s.startLocked()
		if len(s.kept) > 0 {
			s.armRetryLocked()
		}
	case now < s.health.probeAt:
		s.armRetryLocked()
	default:
		s.requeueLocked()
		s.startLocked()
	}
}

// dropMootLocked forgets the kept undos whose keys have expired by now. Their receivers were told long ago.
func (s *sender) dropMootLocked(now time.Duration) {
	s.kept = slices.DeleteFunc(s.kept, func(c *Call) bool { return now >= c.Until })
}

// requeueLocked puts the kept undos in front of the queue: they were submitted before all that
// is queued now.
func (s *sender) requeueLocked() {
	if len(s.kept) == 0 {
		return
	}
	s.dropMootLocked(s.shared.env.Clock.Now())
	s.queue.undos = append(s.kept, s.queue.undos...)
	s.kept = nil
}

// finish tries the kept undos once more, and keeps none from now on. Queued calls are still sent.
func (s *sender) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requeueLocked()
	if s.queue.length() > 0 {
		s.startLocked()
	}
	s.closed = true
	s.retry.stop()
}

// stopTimers stops the timeout of a sender that has finished, and returns how many releases were
// given up without a confirmation, unless all of their keys have expired.
func (s *sender) stopTimers() (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.soonest = 0 // an onTimeout that has just begun must not set the timer again
	s.timeout.stop()
	if s.shared.env.Clock.Now() >= s.droppedUntil {
		return 0
	}
	return s.dropped
}

// UndoFailed reports whether a node did not confirm an undo. Each answer about a latch confirms that the
// latch was deleted: a node that refuses knows of a later deletion.
func UndoFailed(r *wire.Reply) bool {
	return r.Latch == nil && r.Outcome != wire.Released && r.Outcome != wire.Absent
}

// leaves reports whether an operation is queued or under way that removes this waiter.
func (s *sender) leaves(waiter string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(c *Call) bool { return c.Op.Waiter.ID == waiter && c.Op.Waiter.Keep == 0 }
	return s.queue.has(is) || slices.ContainsFunc(s.flights.all, func(f *flight) bool {
		return f.deadline != 0 && slices.ContainsFunc(f.batch, is)
	})
}
