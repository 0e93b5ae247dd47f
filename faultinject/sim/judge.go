package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Verdict is the result of a run.
type Verdict struct {
	// Violations are the broken promises, in the order of the events that show them.
	Violations []Violation
	// History is the events, a line each, if it was traced.
	History []string
	// Grants counts grants of locks, Lost leases that ended by themselves.
	Grants, Lost int
	// Calls counts successful calls of a latch. Excused is set if too many nodes forgot the latch: then
	// little is promised.
	Calls   int
	Excused bool
}

// Promise is a promise that a run checks.
type Promise string

// The promises.
const (
	Exclusion Promise = "exclusion"
	Tokens    Promise = "tokens"
	Finality  Promise = "finality"
	Progress  Promise = "progress"
	Waking    Promise = "waking"
	Order     Promise = "order"
	Tidiness  Promise = "tidiness"
	Counting  Promise = "counting"
	Losses    Promise = "losses"
)

// Violation says which promise was broken, how, and when.
type Violation struct {
	Promise Promise
	At      time.Duration
	Text    string
}

// String is the violation as a line.
func (v Violation) String() string { return fmt.Sprintf("%v: %s: %s", v.At, v.Promise, v.Text) }

// budget bounds the real time in which the checker explains a history. Usually it needs a millisecond. A history that
// takes longer counts as explained.
const budget = 5 * time.Second

// judge checks the recorded history. It must be called outside of the bubble, where time passes.
func (w *world) judge() {
	h, err := w.log.History()
	if err != nil {
		w.violated(Exclusion, "the history is contradictory: %v", err)
		return
	}
	latch := slices.DeleteFunc(h.Events(), func(e history.Event) bool { return e.Of != history.Latch })
	w.explain(slices.DeleteFunc(h.Events(), func(e history.Event) bool { return e.Of == history.Latch }), budget)
	if len(latch) > 0 {
		w.judgeLatch(latch)
	}
	slices.SortStableFunc(w.violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
}

// explain checks some of the events, and notes the violations. A forgotten latch excuses some of them.
func (w *world) explain(events []history.Event, allowed time.Duration) {
	h, err := history.New(events...)
	if err != nil {
		w.violated(Counting, "%v", err)
		return
	}
	for _, v := range history.Check(h, allowed).Violations {
		if w.latch.excused && v.Forgetful() {
			continue
		}
		proof := v.Events
		if v.Of != history.Latch { // the grants come first
			proof = proof[:min(2, len(proof))]
		}
		at := w.now()
		if len(proof) > 0 {
			at = slices.MaxFunc(proof, func(a, b history.Event) int { return cmp.Compare(a.Return, b.Return) }).Return
		}
		w.violatedAt(at, promiseOf(v), "%s", v)
	}
}

func promiseOf(v history.Violation) Promise {
	switch v.Kind {
	case history.TokenOrder, history.TokenTwice:
		return Tokens
	case history.ActAfterGrant, history.Revived:
		return Finality
	}
	if v.Of == history.Latch {
		return Counting
	}
	return Exclusion
}

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
		w.explain(slices.DeleteFunc(calls, func(c history.Event) bool { return c.Kind == history.Delete }), 0)
		return
	}
	events, open := slices.Clone(calls), 0
	for _, c := range calls {
		if limits := w.c.limits(); calls.maybeTwice(c, limits.MaxTTL-limits.MaxClockSkew) {
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
	w.explain(events, allowed)
	for _, c := range calls {
		w.latchWakes(calls, c)
	}
}

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
		since = max(since, span+w.c.limits().Recovery())
	}
	if w.latch.readableFor(max(since, c.Call), c.Return) > patience {
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
// because nodes accept no token older than MaxTTL. young is the least age of a token that one refuses, by the clocks of clients.
func (l latchCalls) maybeTwice(c history.Event, young time.Duration) bool {
	others := l.deletions(c.Call, c.Return)
	switch c.Kind {
	case history.Set, history.CountDown:
		return others > 0
	case history.Delete:
		return others > 1 || c.Return-c.Call > young
	default:
		return false
	}
}
