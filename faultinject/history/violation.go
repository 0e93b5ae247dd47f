package history

import (
	"fmt"
	"slices"
	"time"
)

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
	// TooMany: more permits of a semaphore were held at one instant than it had.
	TooMany ViolationKind = "too many permits"
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

// Forgetful reports whether the violation is one of a latch that a majority of the nodes may have forgotten. A latch
// that is done too early is none: ids may be lost then, but none is invented.
func (v Violation) Forgetful() bool {
	switch v.Kind {
	case SetTwice, Forgotten, CountRose, Unfounded, Unexplained:
		return v.Of == Latch
	default:
		return false
	}
}

func (v Violation) subject() subject { return subject{v.Of, v.Name, v.slot} }

// finder collects the violations of one subject.
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
