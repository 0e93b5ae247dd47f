package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	// Took is the virtual time of the run.
	Took time.Duration
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
	var locks, latch []history.Event
	for _, e := range h.Events() {
		if e.Of == history.Latch {
			latch = append(latch, e)
		} else {
			locks = append(locks, e)
		}
	}
	w.blame(locks, budget)
	w.judgeLatch(latch)
	slices.SortStableFunc(w.violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
}

// blame adds the violations that the checker finds in some of the events. A forgotten latch excuses some of them.
func (w *world) blame(events []history.Event, allowed time.Duration) {
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

// promiseOf returns the promise that a violation breaks.
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
