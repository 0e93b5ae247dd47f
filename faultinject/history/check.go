package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict says whether a lock explains a history.
type Verdict string

// The verdicts.
const (
	// Ok: there are instants at which a lock could have done all of this.
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
	// Total is about all names together, Names about each. An event with several names
	// counts once in Total, and for each of its names.
	Total Counts
	Names map[string]Counts

	history *History
}

// Err is nil if a lock explains the history, and else says why not.
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

// Check decides whether a lock with expiry and tokens explains the history. Porcupine
// is given the time for all names together; 0 or less leaves none, and so no verdict but
// Illegal. Time grows with the number of events, and memory with the square of the most
// that one name has, as porcupine remembers each step: allow for 0.6 GB with 50,000.
func Check(h *History, timeout time.Duration) *Result {
	deadline := time.Now().Add(timeout)
	first, last := h.span()
	names, leases := h.byName()
	r := &Result{Verdict: Ok, Names: map[string]Counts{}, history: h}
	r.Total = h.count(func([]string) bool { return true })
	for _, name := range names {
		r.Names[name] = h.count(func(of []string) bool { return slices.Contains(of, name) })
		r.Violations = append(r.Violations, inspect(name, leases[name], first)...)
	}
	for _, name := range names {
		r.add(name, linearize(leases[name], last+1, deadline))
	}
	switch {
	case len(r.Violations) > 0:
		r.Verdict = Illegal
	case len(r.Undecided) > 0:
		r.Verdict = Unknown
	}
	return r
}

// add takes what porcupine says of a name.
func (r *Result) add(name string, verdict porcupine.CheckResult) {
	explained := slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Name == name })
	switch {
	case verdict == porcupine.Unknown:
		r.Undecided = append(r.Undecided, name)
	case verdict == porcupine.Illegal && !explained:
		r.Violations = append(r.Violations, Violation{
			Kind: Unexplained, Name: name, Text: "there are no instants at which a lock could have done all of this",
		})
	}
}
