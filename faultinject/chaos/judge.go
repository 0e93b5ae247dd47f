package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/history"
)

// judge checks the history.
func (a *arena) judge(whole bool) error {
	h, err := history.ReadDir(a.Dir)
	if err != nil {
		return err
	}
	result := history.Check(h, time.Minute)
	a.report.History, a.report.Counts, a.report.Names = h, result.Total, result.Names
	a.tally(h, result)
	a.blame(h, result)
	if whole {
		a.progress(h)
		a.recovered(h)
	}
	if len(a.report.Violations) > 0 {
		return keep(a.Dir, result)
	}
	return nil
}

// blame reports the violations of the history.
func (a *arena) blame(h *history.History, result *history.Result) {
	for _, v := range result.Violations {
		switch {
		case a.TokensOnly && (v.Kind == history.Overlap || v.Kind == history.ActAfterGrant): // tokens protect against that
		case a.TokensOnly && v.Kind == history.Unexplained: // an overlap may be why
		case v.Forgetful() && a.forgotten(h, v.Name):
		default:
			a.report.violatedBy(kindOf(thing{v.Of, v.Name}), "%v", v)
		}
	}
	if len(result.Undecided) > 0 {
		a.report.slow("it could not be decided whether the history of %v is legal", result.Undecided)
	}
}

// progress checks when each name was acquired again after the last fault, and that a latch was done.
func (a *arena) progress(h *history.History) {
	for _, kind := range a.Kinds {
		for _, t := range things[kind] {
			a.soon(h, kind, fmt.Sprintf("%q was had", t.name), func(e history.Event) bool {
				return e.Kind == history.Acquire && e.Error == "" && e.Of == t.of && slices.Contains(e.Names, t.name)
			})
		}
		if kind == Latch {
			a.soon(h, kind, "a latch was done", func(e history.Event) bool {
				return e.Kind == history.Await && e.Error == ""
			})
		}
	}
}

// recovery is how long after the last fault a lock must be acquired at the latest.
func (a *arena) recovery() time.Duration { return a.limits().Limits().Recovery() + 2*time.Second }

// recoveryOf is how long after the last fault an object of a kind must be acquired at the latest. A latch may be in
// the middle of its time when the last obstacle is gone, so the next one must be done. A joint acquisition holds some
// locks while it waits for the others.
func (a *arena) recoveryOf(kind Kind) time.Duration {
	if kind == Latch || kind == Join {
		return a.recovery() + 2*a.TTL
	}
	return a.recovery()
}

// soon checks when something first happened after the last fault.
func (a *arena) soon(h *history.History, kind Kind, what string, is func(history.Event) bool) {
	bound := a.recoveryOf(kind)
	first := time.Duration(-1)
	for _, e := range h.Events() {
		since := e.Return - a.report.Over
		if is(e) && since > 0 && (first < 0 || since < first) {
			first = since
		}
	}
	switch {
	case first < 0:
		a.report.slow("%s: not within %v after the last fault was mended: %s", kind, bound+patience, what)
	case first > bound:
		a.report.slow("%s: %v and not %v after the last fault was mended: %s", kind, first, bound, what)
	}
	a.report.Recovered = max(a.report.Recovered, first)
}

// answered are the kinds of events that need answers of enough nodes to succeed.
var answered = map[history.Kind]bool{history.Acquire: true, history.Set: true, history.CountDown: true, history.Count: true}

// recovered checks that every client can use the nodes again after the last fault: it acquired something, or learned
// the holder.
func (a *arena) recovered(h *history.History) {
	for i := range a.clients {
		place := fmt.Sprintf("c%d", i+1)
		if !slices.ContainsFunc(h.Events(), func(e history.Event) bool {
			here := e.Client == place || strings.HasPrefix(e.Client, place+".")
			got := e.Error == "" || e.Kind == history.Acquire && strings.Contains(e.Error, "is held by")
			return here && answered[e.Kind] && e.Return > a.report.Over && got
		}) {
			a.report.slow("%s never got through to enough nodes after the last fault was mended", place)
		}
	}
}
