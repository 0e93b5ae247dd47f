package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict says whether the models of locks, semaphores and latches explain a history.
type Verdict string

// The verdicts.
const (
	// Ok: there are instants at which correct locks, semaphores and latches could have done all of this.
	Ok Verdict = "ok"
	// Illegal: there are no such instants.
	Illegal Verdict = "illegal"
	// Unknown: porcupine did not finish in time. Treat that as a failed check.
	Unknown Verdict = "unknown"
)

// Result is the result of [Check].
type Result struct {
	Verdict Verdict
	// Violations are the reasons for Illegal, sorted by name. A lease appears in at most two.
	Violations []Violation
	// Undecided are the names that the time did not suffice for.
	Undecided []string
	// Total counts all leases together, Names those of each lock, and Semaphores those of each semaphore. An event
	// with several names counts once in Total, and once for each name.
	Total      Counts
	Names      map[string]Counts
	Semaphores map[string]Counts
	// Latches counts the calls of each latch.
	Latches map[string]LatchCounts

	history *History
}

// Err returns nil if the models explain the history, and else the reason why not.
func (r *Result) Err() error {
	switch r.Verdict {
	case Ok:
		return nil
	case Unknown:
		return fmt.Errorf("faultinject: history: no verdict in time for %s", strings.Join(r.Undecided, ", "))
	default:
		return fmt.Errorf("faultinject: history: %d violations, the first: %s", len(r.Violations), r.Violations[0])
	}
}

// Check decides whether the models of locks with expiry and tokens, semaphores and latches explain the history. The
// timeout limits porcupine for all names together. If it is 0 or less, the only possible verdict is Illegal or
// Unknown.
//
// Time grows with the number of events. Memory grows with the square of the most events of one name, because
// porcupine remembers each step: 50,000 events need 0.6 GB. For a latch, and for the size of a semaphore, time may
// grow exponentially with the calls that are in flight at one instant. A failed call counts as in flight forever.
func Check(h *History, timeout time.Duration) *Result {
	deadline := time.Now().Add(timeout)
	first, last := h.span()
	names, exclusive, leases := h.bySubject()
	r := &Result{
		Verdict: Ok, Names: map[string]Counts{}, Semaphores: map[string]Counts{}, Latches: map[string]LatchCounts{}, history: h,
	}
	r.Total = h.count(func(Event) bool { return true })
	for _, s := range names {
		r.count(s)
		r.Violations = append(r.Violations, h.inspectWhole(s, first)...)
	}
	for _, s := range exclusive {
		r.Violations = append(r.Violations, inspect(s, leases[s], first)...)
	}
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range exclusive {
		r.add(s, linearize(model(), deadline, func() []porcupine.Operation { return operations(leases[s], last+1, newRows()) }))
	}
	for _, s := range names {
		switch {
		case r.explained(s): // the search may be long where there is nothing to be found
		case s.of == Semaphore:
			r.add(s, linearize(sizeModel(), deadline, func() []porcupine.Operation { return sizeOperations(h.of(s), last+1) }))
		case s.of == Latch:
			r.add(s, linearize(latchModel(), deadline, func() []porcupine.Operation { return latchOperations(h.of(s), last+1) }))
		}
	}
	switch {
	case len(r.Violations) > 0:
		r.Verdict = Illegal
	case len(r.Undecided) > 0:
		r.Verdict = Unknown
	}
	return r
}

func (r *Result) count(s subject) {
	about := func(e Event) bool { return e.about(s) }
	switch s.of {
	case Lock:
		r.Names[s.name] = r.history.count(about)
	case Semaphore:
		r.Semaphores[s.name] = r.history.count(about)
	default:
		r.Latches[s.name] = countLatch(r.history.of(s))
	}
}

// of returns the events about a subject.
func (h *History) of(s subject) []Event {
	var events []Event
	for _, e := range h.events {
		if e.about(s) {
			events = append(events, e)
		}
	}
	return events
}

// inspectWhole lists violations that do not concern two leases: those of a semaphore as a whole, and those of a
// latch.
func (h *History) inspectWhole(s subject, start time.Duration) []Violation {
	f := finder{subject: s, start: start}
	switch s.of {
	case Semaphore:
		inspectPermits(&f, h.of(s), h.leases)
	case Latch:
		inspectLatch(&f, h.of(s))
	}
	return f.found
}

// explained reports whether a violation of the name is already known.
func (r *Result) explained(s subject) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.subject() == s })
}

// add records porcupine's verdict about a name.
func (r *Result) add(s subject, verdict porcupine.CheckResult) {
	switch {
	case verdict == porcupine.Unknown:
		r.Undecided = append(r.Undecided, s.String())
	case verdict == porcupine.Illegal && !r.explained(s):
		what := cmp.Or(s.of, "lock")
		r.Violations = append(r.Violations, Violation{
			Kind: Unexplained, Of: s.of, Name: s.name, slot: s.slot,
			Text: fmt.Sprintf("there are no instants at which a %s could have done all of this", what),
		})
	}
}
