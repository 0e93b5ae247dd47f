package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict says whether locks, semaphores and latches explain a history.
type Verdict string

// The verdicts.
const (
	// Ok: there are instants at which locks, semaphores and latches could have done all of this.
	Ok Verdict = "ok"
	// Illegal: there are none.
	Illegal Verdict = "illegal"
	// Unknown: porcupine had not come to an end in time. That is a failure to check.
	Unknown Verdict = "unknown"
)

// Result is what [Check] found.
type Result struct {
	Verdict Verdict
	// Violations are why it is illegal, by name; of each lease one or two at most.
	Violations []Violation
	// Undecided are the names that there was no time for.
	Undecided []string
	// Total is about all leases together, Names about those of each lock, and Semaphores about
	// those of each semaphore. An event with several names counts once in Total, and for each
	// of its names.
	Total      Counts
	Names      map[string]Counts
	Semaphores map[string]Counts
	// Latches says what happened to each.
	Latches map[string]LatchCounts

	history *History
}

// Err is nil if locks, semaphores and latches explain the history, and else says why not.
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

// Check decides whether locks with expiry and tokens, semaphores and latches explain the history.
// Porcupine is given the time for all names together; 0 or less leaves none, and so no verdict but
// Illegal. Time grows with the number of events, and memory with the square of the most
// that one name has, as porcupine remembers each step: allow for 0.6 GB with 50,000. For a latch,
// and for the size of a semaphore, time may grow exponentially with the number of calls that are
// under way at one instant, to which those that failed belong for ever.
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

// count counts what happened to a name.
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

// of are the events about a subject.
func (h *History) of(s subject) []Event {
	var events []Event
	for _, e := range h.events {
		if e.about(s) {
			events = append(events, e)
		}
	}
	return events
}

// inspectWhole lists violations of what is not a matter of two leases: of a semaphore as a whole, and
// of a latch.
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

// explained reports whether it is known already what is wrong with a name.
func (r *Result) explained(s subject) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.subject() == s })
}

// add takes what porcupine says of a name.
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
