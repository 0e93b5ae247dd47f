package history

import (
	"fmt"
	"slices"
	"time"
)

// ViolationKind says what a lock has not kept.
type ViolationKind string

// The kinds of [Violation].
const (
	// Overlap: two leases were valid at one instant, and not both were readers'.
	Overlap ViolationKind = "overlap"
	// TokenOrder: a lease that was granted after another one has the smaller token, or is
	// that of a writer and has the token of a reader.
	TokenOrder ViolationKind = "token order"
	// TokenTwice: two leases have the same token, and both are writers'.
	TokenTwice ViolationKind = "token twice"
	// ActAfterGrant: a lease was seen valid after one was granted that comes after it by its
	// token, and has to come after its end.
	ActAfterGrant ViolationKind = "act after a newer grant"
	// Revived: a lease was seen valid after it was seen to have ended.
	Revived ViolationKind = "revived"
	// TooMany: more permits of a semaphore were held at one instant than there were.
	TooMany ViolationKind = "too many permits"
	// BeyondSize: a permit was granted whose number is not below how many there were.
	BeyondSize ViolationKind = "permit beyond the size"
	// SetTwice: a latch was set to two numbers, and not deleted between.
	SetTwice ViolationKind = "set twice"
	// TooEarly: a latch was told to be nearer to its end than so many different ids can have
	// brought it; or to be there at all, and nobody had set it.
	TooEarly ViolationKind = "counted too early"
	// Forgotten: a latch lacked more than it can have, after the count-downs that it had
	// confirmed.
	Forgotten ViolationKind = "count-down forgotten"
	// CountRose: a latch lacked more than it had before, or was not done any more.
	CountRose ViolationKind = "count rose"
	// Unexplained: porcupine finds no order of the events that a lock would allow, and no
	// pair of them shows why.
	Unexplained ViolationKind = "unexplained"
)

// Violation is something that no lock with expiry and tokens does, no semaphore, or no latch.
type Violation struct {
	Kind ViolationKind
	// Of and Name say of what.
	Of   Type
	Name string
	// Events are those that prove it, the grants of the leases first. There are none for
	// Unexplained.
	Events []Event
	// Text says in words what is wrong. Its times count from the first call.
	Text string

	slot int // of the permit, or none
}

// String is the violation as a sentence.
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

// subject is what it is about.
func (v Violation) subject() subject { return subject{v.Of, v.Name, v.slot} }

// finder gathers the violations of one subject.
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

// distinct leaves out repetitions, as the grant of a lease can be all that is known of it.
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
