package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Result is the result of [Check].
type Result struct {
	// Violations are sorted by name. A lease appears in at most two.
	Violations []Violation
	// Undecided are the semaphores and latches for which the time was too short for porcupine. Treat that as a failed check.
	Undecided []string
	// Total counts all leases together, and Objects the calls of each object.
	Total   Counts
	Objects map[Object]Counts
}

// Object is a named object of a type.
type Object struct {
	Of   Type
	Name string
}

// Err returns nil if the models explain the history, and else the reason why not.
func (r *Result) Err() error {
	switch {
	case len(r.Violations) > 0:
		return fmt.Errorf("faultinject: history: %d violations, the first: %s", len(r.Violations), r.Violations[0])
	case len(r.Undecided) > 0:
		return fmt.Errorf("faultinject: history: no verdict in time for %s", strings.Join(r.Undecided, ", "))
	default:
		return nil
	}
}

// Check decides whether the models of locks with expiry and tokens, semaphores and latches explain the history. The
// timeout limits porcupine for all semaphores and latches together. If it is 0 or less, only the comparisons decide, and
// those without a violation are undecided.
//
// Time grows with the number of events. For a latch, and for the size of a semaphore, time may grow exponentially with
// the calls that are in flight at one instant. A failed call counts as in flight forever.
func Check(h *History, timeout time.Duration) *Result {
	first, last := h.span()
	names, parts := h.byName()
	exclusive, leases := h.bySubject()
	r := &Result{Objects: map[Object]Counts{}}
	var held History
	for _, s := range names {
		of := parts[s]
		r.Objects[Object{s.of, s.name}] = of.count(first, last)
		r.Violations = append(r.Violations, of.inspectWhole(s, first)...)
		if s.of != Latch {
			held.events, held.leases = append(held.events, of.events...), append(held.leases, of.leases...)
		}
	}
	r.Total = held.count(first, last)
	for _, s := range exclusive {
		r.Violations = append(r.Violations, inspect(s, leases[s], first)...)
	}
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name))
	})
	deadline := time.Now().Add(timeout)
	for _, s := range names {
		switch {
		case r.explained(s): // the search may be long where there is nothing to be found
		case s.of == Semaphore:
			r.add(s, linearize(sizeModel(), deadline, func() []porcupine.Operation { return sizeOperations(parts[s].events, last+1) }))
		case s.of == Latch:
			r.add(s, linearizeLatch(deadline, parts[s].events, last+1))
		}
	}
	return r
}

// linearize lets porcupine search, until a deadline, for instants at which the steps of one name can have happened.
func linearize(m porcupine.Model, deadline time.Time, steps func() []porcupine.Operation) porcupine.CheckResult {
	left := time.Until(deadline)
	if left <= 0 {
		return porcupine.Unknown
	}
	return porcupine.CheckOperationsTimeout(m, steps(), left)
}

// inspectWhole lists violations of the only name of the history that do not concern two leases: violations of a semaphore
// as a whole, and of a latch.
func (h *History) inspectWhole(s subject, start time.Duration) []Violation {
	f := finder{subject: s, start: start}
	switch s.of {
	case Semaphore:
		inspectPermits(&f, h.events)
	case Latch:
		inspectLatch(&f, h.events)
	}
	return f.found
}

// explained reports whether a violation of the name is already known.
func (r *Result) explained(s subject) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.subject() == s })
}

func (r *Result) add(s subject, verdict porcupine.CheckResult) {
	switch {
	case verdict == porcupine.Unknown:
		r.Undecided = append(r.Undecided, s.String())
	case verdict == porcupine.Illegal && !r.explained(s):
		r.Violations = append(r.Violations, Violation{
			Kind: Unexplained, Of: s.of, Name: s.name, slot: s.slot,
			Text: fmt.Sprintf("there are no instants at which a %s could have done all of this", s.of),
		})
	}
}

// ViolationKind is the promise that was broken.
type ViolationKind string

// The kinds of a [Violation].
const (
	// Overlap: two leases were valid at one instant, and not both were readers'.
	Overlap ViolationKind = "overlap"
	// TokenOrder: a lease has a smaller token than one that was granted before it, or a writer has the token of an
	// earlier reader.
	TokenOrder ViolationKind = "token order"
	// TokenTwice: two writers' leases have the same token.
	TokenTwice ViolationKind = "token twice"
	// ActAfterGrant: a lease was seen valid after the grant of a lease with a larger token that requires its end.
	ActAfterGrant ViolationKind = "act after a newer grant"
	// Revived: a lease was seen valid after it was seen to have ended.
	Revived ViolationKind = "revived"
	// BeyondSize: the number of a granted permit is not below the semaphore's size.
	BeyondSize ViolationKind = "permit beyond the size"
	// SetTwice: a latch was set to two numbers without a deletion between.
	SetTwice ViolationKind = "set twice"
	// TooEarly: a latch was reported with fewer missing ids than its count-downs can explain, or as set although no
	// client had set it.
	TooEarly ViolationKind = "counted too early"
	// Forgotten: a latch was reported with more missing ids than its confirmed count-downs allow.
	Forgotten ViolationKind = "count-down forgotten"
	// CountRose: a latch had more missing ids than before, or was no longer done.
	CountRose ViolationKind = "count rose"
	// Unfounded: a latch refused a call for a reason that no other call explains.
	Unfounded ViolationKind = "unfounded refusal"
	// Unexplained: porcupine finds no legal order of the events, and no pair of them shows why.
	Unexplained ViolationKind = "unexplained"
)

// Violation is a behaviour that no correct lock with expiry and tokens, semaphore or latch shows.
type Violation struct {
	Kind ViolationKind
	Of   Type
	Name string
	// Events are the events that prove it, the grants of the leases first. There are none for Unexplained.
	Events []Event
	// Text describes the violation. Its times count from the first call.
	Text string

	slot int // of the permit, or none
}

func (v Violation) String() string {
	of := fmt.Sprintf("%q", v.Name)
	if v.Of != Lock {
		of = fmt.Sprintf("%s %q", v.Of, v.Name)
	}
	if v.slot != none {
		of += fmt.Sprintf(", slot %d", v.slot)
	}
	return fmt.Sprintf("%s of %s: %s", v.Kind, of, v.Text)
}

// Forgetful reports whether the violation is one of a latch, or of the size of a semaphore, that a majority of the nodes may
// have forgotten. A latch that is done too early is none: ids may be lost then, but none is invented.
func (v Violation) Forgetful() bool {
	switch v.Kind {
	case SetTwice, Forgotten, CountRose, Unfounded:
		return v.Of == Latch
	case BeyondSize:
		return v.Of == Semaphore
	case Unexplained:
		return v.Of == Latch || v.Of == Semaphore && v.slot == none
	default:
		return false
	}
}

func (v Violation) subject() subject { return subject{v.Of, v.Name, v.slot} }

type finder struct {
	subject subject
	start   time.Duration
	found   []Violation
}

func (f *finder) at(t time.Duration) string { return "+" + (t - f.start).String() }

func (f *finder) interval(e Event) string {
	if !e.returned() {
		return f.at(e.Call) + "..?"
	}
	return f.at(e.Call) + ".." + f.at(e.Return)
}

func (f *finder) add(kind ViolationKind, text string, events ...Event) {
	s := f.subject
	f.found = append(f.found, Violation{Kind: kind, Of: s.of, Name: s.name, slot: s.slot, Events: distinct(events), Text: text})
}

// distinct removes repetitions: the grant of a lease may also be the last event that saw it valid.
func distinct(events []Event) []Event {
	var all []Event
	for _, e := range events {
		same := func(other Event) bool { return other.Client == e.Client && other.Op == e.Op }
		if !slices.ContainsFunc(all, same) {
			all = append(all, e)
		}
	}
	return all
}

// Counts count the events of a history.
type Counts struct {
	// Granted, Refused and Unanswered count the acquisitions that gave a lease, that failed, and that have no return. For a
	// latch, these are calls of Await that found it done, and calls of any kind that failed, or have no return.
	Granted, Refused, Unanswered int
	// Acts counts how often leases were seen valid, without releases and downgrades. For a latch, these are the answers of
	// CountDown and Count.
	Acts int
	// Lost counts the leases that ended without a release.
	Lost int
	// Released counts the releases that succeeded.
	Released int
	// Silence is the longest time without a grant, between the first call and the last time in the history. A lease that is
	// held for a long time causes a silence, too.
	Silence time.Duration
}

// count counts the events of a part of a history that lasted from first to last.
func (h *History) count(first, last time.Duration) Counts {
	var c Counts
	grants := []time.Duration{first}
	for _, e := range h.events {
		c.event(e)
		if e.granted() {
			grants = append(grants, e.Return)
		}
	}
	for _, l := range h.leases {
		if l.over != nil && l.over.Kind != Release {
			c.Lost++
		}
	}
	slices.Sort(grants)
	for i, to := range append(grants, last)[1:] {
		c.Silence = max(c.Silence, to-grants[i])
	}
	return c
}

func (c *Counts) event(e Event) {
	started := e.Kind == Acquire || e.Of == Latch
	switch {
	case started && !e.returned():
		c.Unanswered++
	case started && e.Error != "":
		c.Refused++
	case e.Kind == Acquire || e.Kind == Await:
		c.Granted++
	case e.Succeeded() && (e.Kind == Act || e.Kind == CountDown || e.Kind == Count):
		c.Acts++
	case e.Kind == Release && e.Succeeded():
		c.Released++
	}
}
