package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// refuseQueue empties the queue of a node that failed: undos are kept, and whoever
// waits for one of the others, or for one of these, is returned to be told.
func (l *lane) refuseQueue(now time.Duration) (waiting []*call) {
	for _, c := range l.queue {
		if !c.told {
			c.told = true
			waiting = append(waiting, c)
		}
		if c.until > 0 {
			l.keep(c, now)
		}
	}
	clear(l.queue)
	l.queue = l.queue[:0]
	clear(l.renewals)
	l.client.schedule.look()
	return waiting
}

// watch sets the watchdog on an exchange that begins now and is overdue after the timeout. The timer is left running
// from one exchange to the next: to set it anew for each would cost more than to have it
// fire once in a while for nothing. The mutex is held.
func (l *lane) watch(now, timeout time.Duration) {
	l.began, l.deadline = now, now+timeout
	if !l.watched || l.barkAt > l.deadline {
		l.armWatchdog(now)
	}
}

func (l *lane) armWatchdog(now time.Duration) {
	l.watched, l.barkAt = true, l.deadline
	if l.watchdog == nil {
		l.watchdog = l.client.clock.AfterFunc(l.deadline-now, l.bark)
	} else {
		l.watchdog.Reset(l.deadline - now)
	}
}

// unwatch ends the watch, and reports whether the exchange was overdue.
func (l *lane) unwatch() (overdue bool) {
	overdue = l.overdue
	l.deadline, l.overdue = 0, false
	return overdue
}

// bark runs when an exchange is overdue: those who wait are told that its outcome is
// unknown, and those behind them that the node was not asked. The sender stays with
// the exchange until the node's own bound ends it.
func (l *lane) bark() {
	l.mu.Lock()
	now := l.client.clock.Now()
	l.watched = false
	if l.deadline == 0 || now < l.deadline || l.overdue {
		if l.deadline != 0 && !l.overdue {
			l.armWatchdog(now) // for an exchange that began after it was set
		}
		l.mu.Unlock()
		return
	}
	l.overdue = true
	reason, why := node.ErrDown, node.ErrTimeout
	if l.connecting {
		reason, why = node.ErrTimeout, errConnecting
		l.greet(&node.Error{Node: l.node.Name(), Reason: reason, Err: why})
	} else {
		l.health.late()
	}
	var sent []*call
	for _, c := range l.inFlight {
		if !c.told {
			c.told = true
			sent = append(sent, c)
		}
	}
	queued := l.refuseQueue(now)
	l.mu.Unlock()

	l.tell(sent, node.ErrTimeout, nil, false)
	l.tell(queued, reason, why, true)
}

// tell answers calls that the node did not answer.
func (l *lane) tell(calls []*call, reason, err error, unsent bool) {
	for _, c := range calls {
		c.sink.answer(c, &node.Reply{
			Err:    &node.Error{Node: l.node.Name(), Op: c.op.Kind, Reason: reason, Err: err},
			Unsent: unsent,
		})
	}
}
