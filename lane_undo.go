package quorumlock

import (
	"errors"
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

// keep puts an undo that failed aside, unless the keys have run out on their own by
// now, or the client is closing.
func (l *lane) keep(c *call, now time.Duration) {
	switch {
	case now >= c.until:
		return
	case l.closed:
		l.dropped++
		return
	}
	l.kept = append(l.kept, c)
	l.armRetry()
}

// armRetry has the kept undos tried again: when a node that is down may be asked, and
// after a pause where the node answers, but not to its liking. The mutex is held.
func (l *lane) armRetry() {
	wait := probePauseMax
	if l.health.down {
		wait = max(l.health.probeAt-l.client.clock.Now(), time.Millisecond)
	}
	if l.retry == nil {
		l.retry = l.client.clock.AfterFunc(wait, l.retryKept)
	} else {
		l.retry.Reset(wait)
	}
}

// retryKept queues the kept undos again. They go first: whoever submitted them did so
// before all that is queued now.
func (l *lane) retryKept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		return
	}
	l.queue = append(l.kept, l.queue...)
	l.kept = nil
	l.start()
}

// finish tries the kept undos a last time, and keeps none from now on. What is queued
// is still sent.
func (l *lane) finish() {
	l.retryKept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.retry != nil {
		l.retry.Stop()
	}
	l.dropped += len(l.kept)
	l.kept = nil
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

// undoFailed reports whether an undo has to be tried again.
func undoFailed(r node.Reply) bool {
	return r.Err != nil && !errors.Is(r.Err, node.ErrClosed)
}
