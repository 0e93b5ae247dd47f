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

// watch has the watchdog look at an exchange that begins now. The mutex is held.
func (l *lane) watch(now time.Duration) {
	l.began, l.deadline = now, now+l.health.timeout
	l.guard(now, l.deadline)
}

// guard has the watchdog run at an instant, or before. The timer is left running from one
// exchange to the next: to set it anew for each would cost more than to have it fire once
// in a while for nothing. The mutex is held.
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

// guardOn has the watchdog run when it is needed next, if it is. The mutex is held.
func (l *lane) guardOn(now time.Duration) {
	next := never
	if l.deadline != 0 && !l.overdue {
		next = l.deadline
	}
	if l.soonest != 0 {
		next = min(next, max(l.soonest, now+trifle)) // not for each of a crowd by itself
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

// bark runs when calls or an exchange are overdue, and tells those who wait.
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

// exceed notes that an exchange is overdue: those who wait are to be told that its outcome is
// unknown, and those behind them that the node was not asked. The sender stays with the
// exchange until the node's own bound ends it. The mutex is held.
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
