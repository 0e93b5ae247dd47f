package quorumlock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// putOff has an undo that is not to be sent now sent later. During a probe it waits
// behind what is queued for the end of that: a release that is sent before its own
// acquisition or renewal leaves the lock behind.
func (l *lane) putOff(c *call) {
	if l.health.down && l.busy && !l.closed {
		l.queue = append(l.queue, c)
		return
	}
	l.keep(c, l.client.clock.Now())
}

// maxKept bounds the undos that wait for one node. Beyond it the keys have to run out by
// themselves.
const maxKept = 1 << 16

// keep puts an undo that failed aside, unless the keys have run out on their own by
// now, or nothing can be sent to the node any more.
func (l *lane) keep(c *call, now time.Duration) {
	switch {
	case now >= c.until:
		return
	case l.closed, l.gone, len(l.kept) >= maxKept:
		if c.op.Kind == node.Release {
			l.dropped++
		}
		return
	}
	c.retried = false
	if c.op.Waiter.Keep != 0 {
		// By then, who waited may have gone: it gets in line anew. A copy, as this one may be
		// being told just now.
		op, again := *c.op, *c
		op.Waiter.Keep = 0
		again.op, again.told = &op, true
		c = &again
	}
	l.kept = append(l.kept, c)
	l.armRetry()
}

// armRetry has the kept undos tried again: when a node that is down may be asked, and
// after a pause where the node answers, but not to its liking. What comes later does
// not put off what was kept before. The mutex is held.
func (l *lane) armRetry() {
	now := l.client.clock.Now()
	at := now + probePauseMax
	if l.health.down {
		at = max(l.health.probeAt, now+time.Millisecond)
	}
	if l.retryAt != 0 && l.retryAt <= at {
		return
	}
	l.retryAt = at
	if l.retry == nil {
		l.retry = l.client.clock.AfterFunc(at-now, l.retryKept)
	} else {
		l.retry.Reset(at - now)
	}
}

// retryKept queues kept undos again, unless it is too early to ask the node. One that
// answers, and rejects them, is tried with a single one: the rest follows its success.
func (l *lane) retryKept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retryAt = 0
	switch {
	case len(l.kept) == 0:
	case !l.health.down && !l.overdue:
		l.kept[0].retried = true
		l.queue = slices.Insert(l.queue, 0, l.kept[0])
		l.kept = slices.Delete(l.kept, 0, 1)
		l.start()
		if len(l.kept) > 0 {
			l.armRetry()
		}
	case l.client.clock.Now() < l.health.probeAt:
		l.armRetry()
	default:
		l.requeue()
		l.start()
	}
}

// requeue puts the kept undos in front of the queue: whoever submitted them did so
// before all that is queued now. The mutex is held.
func (l *lane) requeue() {
	if len(l.kept) == 0 {
		return
	}
	l.queue = append(l.kept, l.queue...)
	l.kept = nil
}

// finish tries the kept undos a last time, and keeps none from now on. What is queued
// is still sent.
func (l *lane) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) > 0 {
		l.requeue()
		l.start()
	}
	l.closed = true
	if l.retry != nil {
		l.retry.Stop()
	}
}

// rest stops the timers of a lane that has finished, and says how many undos were given
// up without a confirmation.
func (l *lane) rest() (dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watchdog != nil {
		l.watchdog.Stop()
	}
	return l.dropped
}

// undoFailed reports whether a node did not confirm an undo.
func undoFailed(r *node.Reply) bool {
	return r.Outcome != node.Released && r.Outcome != node.Absent
}
