package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// checkLatch checks the calls of the latch, each by itself.
func (w *world) checkLatch() {
	l := &w.latch
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.list {
		l.beyondAll(w, c)
	}
	if l.excused {
		return
	}
	for _, c := range l.list {
		l.refused(w, c)
		l.woken(w, c)
	}
}

// mostOpen limits the calls that may or may not have taken effect at any one time, because porcupine's time grows
// exponentially with them. Within that limit it usually needs milliseconds. budget bounds the rest, for which there
// is no verdict.
const (
	mostOpen = 8
	budget   = 5 * time.Second
)

// explain checks the history of the latch, like that of a real one. It must be called outside of the bubble, where
// time passes.
func (l *latchWitness) explain(w *world) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.excused {
		return
	}
	var events []history.Event
	open := 0
	add := func(c *latchCall, e history.Event) {
		if c.changes() && !c.succeeded() {
			open++
		}
		events = append(events, e)
	}
	for _, c := range l.list {
		add(c, c.Event)
		if l.maybeTwice(c) {
			again := c.Event
			again.Op += uint64(len(l.list))
			add(c, again)
		}
	}
	h, err := history.New(events...)
	if err != nil {
		w.violated(Counting, "%v", err)
		return
	}
	allowed := budget
	if open > mostOpen {
		allowed = 0
	}
	for _, v := range history.Check(h, allowed).Violations {
		w.violated(Counting, "%s", v)
	}
}

// beyondAll checks what holds after any loss of memory: no reader sees an effect without its cause.
func (l *latchWitness) beyondAll(w *world, told *latchCall) {
	if told.changes() || !told.succeeded() {
		return
	}
	least, ids := 0, map[string]bool{}
	for _, c := range l.list {
		switch {
		case c.Call > told.Return:
		case c.Kind == history.Set && (least == 0 || c.Count < least):
			least = c.Count
		case c.Kind == history.CountDown:
			ids[c.ID] = true
		}
	}
	if least == 0 || least-len(ids) > told.Count {
		w.violated(Counting, "%s, and by then it was set to no less than %d, and no more than %d ids had counted down", told.Event, least, len(ids))
	}
}

// refused checks a call that failed because the latch was not set, was deleted, or was set to another number.
func (l *latchWitness) refused(w *world, c *latchCall) {
	var other *quorumlock.LatchSetError
	switch {
	case errors.Is(c.err, quorumlock.ErrLatchNotSet):
		for _, s := range l.list {
			if s.Kind == history.Set && s.succeeded() && s.Return < c.Call && !l.maybeDeleted(s.Call, c.Return) {
				w.violated(Counting, "%s, and %s before that, and no client has deleted it", c.Event, s.Event)
				return
			}
		}
	case errors.Is(c.err, quorumlock.ErrLatchDeleted):
		if !l.maybeDeleted(c.Call, c.Return) {
			w.violated(Counting, "%s, and no client has deleted it", c.Event)
		}
	case errors.As(c.err, &other):
		if !slices.ContainsFunc(l.list, func(s *latchCall) bool {
			return s.Kind == history.Set && s.Count == other.Count && s.Call <= c.Return
		}) {
			w.violated(Counting, "%s, and no client has set it to that", c.Event)
		}
	}
}

// woken checks that no waiter has waited for long since enough ids had certainly counted down, or since the latch was
// certainly deleted.
func (l *latchWitness) woken(w *world, c *latchCall) {
	if c.Kind != history.Await || errors.Is(c.err, quorumlock.ErrClosed) || !w.c.timely(c.client) {
		return
	}
	since, why := l.done(c)
	if since == 0 {
		since, why = l.deleted(c)
	}
	if since == 0 {
		return
	}
	patience := patienceWithout
	if !w.c.undisturbed() {
		patience = patienceAfter + 4*w.c.Weather.Most
		since = max(since, span+limits.Recovery())
	}
	if l.legible(max(since, c.Call), c.Return) > patience {
		w.violated(Waking, "%s waited from %v to %v, and the latch was %s by %v: %v", c.Client, c.Call, c.Return, why, since, c.err)
	}
}

// done returns when enough ids had certainly counted down for a waiter, if they have.
func (l *latchWitness) done(c *latchCall) (since time.Duration, why string) {
	for _, s := range l.list {
		if s.Kind != history.Set || !s.succeeded() || l.maybeDeleted(s.Call, c.Return) {
			continue
		}
		at := map[string]time.Duration{}
		for _, d := range l.list {
			if d.Kind == history.CountDown && d.succeeded() && !l.maybeDeleted(d.Call, c.Return) && (at[d.ID] == 0 || d.Return < at[d.ID]) {
				at[d.ID] = d.Return
			}
		}
		if len(at) >= s.Count {
			return max(s.Return, slices.Sorted(maps.Values(at))[s.Count-1]), "done"
		}
	}
	return 0, ""
}

// deleted returns when the latch was certainly deleted, and not set again, if it was.
func (l *latchWitness) deleted(c *latchCall) (since time.Duration, why string) {
	var last *latchCall
	for _, d := range l.list {
		if d.Kind == history.Delete && d.succeeded() && (last == nil || d.Call > last.Call) {
			last = d
		}
	}
	if last == nil || last.Return > c.Return || slices.ContainsFunc(l.list, func(s *latchCall) bool {
		return s.Kind == history.Set && (!s.succeeded() || s.Return > last.Call)
	}) {
		return 0, ""
	}
	return last.Return, "deleted"
}

// changes reports whether a call changes the latch.
func (c *latchCall) changes() bool { return c.Kind != history.Await && c.Kind != history.Count }

// maybeDeleted reports whether the latch can have been deleted between two times.
func (l *latchWitness) maybeDeleted(from, to time.Duration) bool { return l.deletions(from, to) > 0 }

// deletions counts the deletions that can have taken effect between two times.
func (l *latchWitness) deletions(from, to time.Duration) (n int) {
	for _, d := range l.list {
		if d.Kind == history.Delete && d.Call <= to && (!d.succeeded() || d.Return >= from) {
			n++
		}
	}
	return n
}

// maybeTwice reports whether a call may have taken effect twice: before and after a deletion, or with another token,
// because nodes accept no token older than MaxTTL.
func (l *latchWitness) maybeTwice(c *latchCall) bool {
	others := l.deletions(c.Call, c.Return)
	switch c.Kind {
	case history.Set, history.CountDown:
		return others > 0
	case history.Delete:
		return others > 1 || c.Return-c.Call > limits.MaxTTL-limits.MaxClockSkew
	default:
		return false
	}
}
