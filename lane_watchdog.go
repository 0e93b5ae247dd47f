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

// watch sets the watchdog to an exchange that begins now. The mutex is held.
func (l *lane) watch(now time.Duration) {
	l.began, l.deadline = now, now+l.health.timeout
	l.guard(now, l.deadline)
}

// guard makes sure that the watchdog runs at an instant, or before. The timer keeps running from
// one exchange to the next: to set it for each would cost more than a timer that fires for
// nothing once in a while. The mutex is held.
func (l *lane) guard(now, at time.Duration) {
	if l.watched && l.barkAt <= at {
		return
	}
	l.watched, l.barkAt = true, at
	if l.watchdog == nil {
		l.watchdog = l.client.clock.AfterFunc(at-now, l.bark)
	} else {
		l.watchdog.Reset(at - now)
	}
}

// guardOn sets the watchdog to the next deadline, if there is one. The mutex is held.
func (l *lane) guardOn(now time.Duration) {
	next := never
	if l.deadline != 0 && !l.overdue {
		next = l.deadline
	}
	if l.soonest != 0 {
		next = min(next, max(l.soonest, now+trifle)) // one run serves a crowd of calls
	}
	if next != never {
		l.guard(now, next)
	}
}

// unwatch ends the watch, and reports whether the exchange was overdue.
func (l *lane) unwatch() (overdue bool) {
	overdue = l.overdue
	l.deadline, l.overdue = 0, false
	return overdue
}

// bark runs when calls or an exchange are overdue, and answers the callers.
func (l *lane) bark() {
	l.mu.Lock()
	now := l.client.clock.Now()
	l.watched = false
	late, unsent := l.giveUp(now)
	var sent, queued []*call
	if l.deadline != 0 && now >= l.deadline && !l.overdue {
		sent, queued = l.exceed(now)
	}
	l.guardOn(now)
	l.mu.Unlock()

	l.tell(late, node.ErrTimeout, nil, false)
	l.tell(unsent, node.ErrBusy, node.ErrTimeout, true)
	l.tell(sent, node.ErrTimeout, nil, false)
	l.tell(queued, node.ErrDown, node.ErrTimeout, true)
}

// exceed notes that an exchange is overdue. It returns the calls whose outcome is unknown, and
// the calls behind them, for which the node was not asked. The sender stays with the exchange
// until the node's own bound ends it. The mutex is held.
func (l *lane) exceed(now time.Duration) (sent, queued []*call) {
	l.overdue = true
	l.health.late()
	for _, c := range l.inFlight {
		if !c.told {
			c.told = true
			sent = append(sent, c)
		}
	}
	return sent, l.refuseQueue(now)
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
