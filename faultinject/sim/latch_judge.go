package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// mostOpen limits the calls that may or may not have taken effect at any one time, because porcupine's time grows
// exponentially with them. A history with more gets no verdict from porcupine. Within the limit it usually needs
// milliseconds.
const mostOpen = 8

// judgeLatch checks the calls of the latch. If too many nodes have forgotten the latch, count-downs and deletions may
// be lost. But no reader may see an effect without its cause.
func (w *world) judgeLatch(calls latchCalls) {
	for _, c := range calls {
		if c.Succeeded() {
			w.calls++
		}
	}
	if w.latch.excused {
		w.blame(slices.DeleteFunc(calls, func(c history.Event) bool { return c.Kind == history.Delete }), 0)
		return
	}
	events, open := slices.Clone(calls), 0
	for _, c := range calls {
		if calls.maybeTwice(c) {
			c.Op += 1 << 32
			events = append(events, c)
		}
	}
	for _, e := range events {
		if !e.Succeeded() && e.Kind != history.Await && e.Kind != history.Count {
			open++
		}
	}
	allowed := budget
	if open > mostOpen {
		allowed = 0
	}
	w.blame(events, allowed)
	for _, c := range calls {
		w.latchWakes(calls, c)
	}
}

// latchCalls are the calls of a latch.
type latchCalls []history.Event

// latchWakes checks that no waiter has waited for long since enough ids had certainly counted down, or since the
// latch was certainly deleted.
func (w *world) latchWakes(calls latchCalls, c history.Event) {
	if c.Kind != history.Await || c.Return == 0 || !w.c.timely(w.clients[c.Client]) || strings.Contains(c.Error, quorumlock.ErrClosed.Error()) {
		return
	}
	since, why := calls.done(c)
	if since == 0 {
		since, why = calls.deleted(c)
	}
	if since == 0 {
		return
	}
	patience := patienceWithout
	if !w.c.undisturbed() {
		patience = patienceAfter + 4*w.c.Weather.Most
		since = max(since, span+limits.Recovery())
	}
	if w.latch.legible(max(since, c.Call), c.Return) > patience {
		w.violatedAt(c.Return, Waking, "%s waited from %v to %v, and the latch was %s by %v: %v", c.Client, c.Call, c.Return, why, since, c.Error)
	}
}

// done returns when enough ids had certainly counted down for a waiter, if they have.
func (l latchCalls) done(c history.Event) (since time.Duration, why string) {
	for _, s := range l {
		if s.Kind != history.Set || !s.Succeeded() || l.deletions(s.Call, c.Return) > 0 {
			continue
		}
		at := map[string]time.Duration{}
		for _, d := range l {
			if d.Kind == history.CountDown && d.Succeeded() && l.deletions(d.Call, c.Return) == 0 && (at[d.ID] == 0 || d.Return < at[d.ID]) {
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
func (l latchCalls) deleted(c history.Event) (since time.Duration, why string) {
	var last history.Event
	for _, d := range l {
		if d.Kind == history.Delete && d.Succeeded() && d.Call > last.Call {
			last = d
		}
	}
	if last.Call == 0 || last.Return > c.Return || slices.ContainsFunc(l, func(s history.Event) bool {
		return s.Kind == history.Set && (!s.Succeeded() || s.Return > last.Call)
	}) {
		return 0, ""
	}
	return last.Return, "deleted"
}

// deletions counts the deletions that can have taken effect between two times.
func (l latchCalls) deletions(from, to time.Duration) (n int) {
	for _, d := range l {
		if d.Kind == history.Delete && d.Call <= to && (!d.Succeeded() || d.Return >= from) {
			n++
		}
	}
	return n
}

// maybeTwice reports whether a call may have taken effect twice: before and after a deletion, or with another token,
// because nodes accept no token older than MaxTTL.
func (l latchCalls) maybeTwice(c history.Event) bool {
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
