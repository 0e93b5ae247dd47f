package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// inspector looks for violations of one name by comparing times.
//
// The leases of a name have one order, by token; a writer comes before the readers that have its
// token, and among these there is none. There are instants for all steps of the model unless one
// that comes before another, by this order, was called after that had returned. What
// comes before the grant of a lease are the grants of those before it; what they saw valid, if it
// is a writer's; and what saw those of writers before they became readers, if it is a reader's, and
// all that comes before the writer before it. Of a lease, the first return is that of its grant. So it is enough to compare the grant of each
// lease with the calls of those before it, and each lease with its own end.
type inspector struct {
	finder
	leases []*lease // in the order of their grants
	// shown are leases of which a violation is told already: one is enough. Those of writers
	// with one token are told of as such.
	shown map[*lease]bool
	// misplaced are those whose token is told to be out of order. That is told of a lease
	// besides an overlap: where clocks step, it is all that is promised.
	misplaced map[*lease]bool
}

// inspect lists violations, at least one if there are any.
func inspect(of subject, leases []*lease, start time.Duration) []Violation {
	i := &inspector{
		finder: finder{subject: of, start: start}, leases: leases, shown: map[*lease]bool{}, misplaced: map[*lease]bool{},
	}
	i.overlaps()
	i.tokens()
	i.revivals()
	return i.found
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

// overlaps compares the times at which leases were certainly valid, whatever their tokens:
// from the return of the grant until the last call that saw them valid.
func (i *inspector) overlaps() {
	byReturn := slices.SortedStableFunc(slices.Values(i.leases), func(a, b *lease) int {
		return cmp.Compare(a.grant.Return, b.grant.Return)
	})
	var longest, alone *lease // of those before: the one valid for longest, and the writer
	for _, l := range byReturn {
		switch {
		case longest != nil && l.writes() && overlap(longest, longest.validUntil(), l, l.aloneUntil()):
			i.overlapped(longest, longest.validUntil(), l)
		case alone != nil && overlap(alone, alone.aloneUntil(), l, l.validUntil()):
			i.overlapped(alone, alone.aloneUntil(), l)
		}
		if longest == nil || l.validUntil() > longest.validUntil() {
			longest = l
		}
		if l.writes() && (alone == nil || l.aloneUntil() > alone.aloneUntil()) {
			alone = l
		}
	}
}

// overlap reports whether a lease was valid at an instant at which another was, whose grant
// returned no earlier. The other was valid at some instant of its acquisition. The times are until
// when they certainly were, in the way that excludes each other.
func overlap(a *lease, aUntil time.Duration, b *lease, bUntil time.Duration) bool {
	throughout := a.grant.Return < b.grant.Call || bUntil > b.grant.Return
	return aUntil > b.grant.Return && throughout
}

func (i *inspector) overlapped(a *lease, until time.Duration, b *lease) {
	if i.shown[a] {
		return
	}
	i.shown[a] = true
	text := fmt.Sprintf("lease %s was valid %s..%s (%s); lease %s was granted within, at %s",
		who(a), i.at(a.grant.Return), i.at(until), a.proof(until).Kind, who(b), i.interval(b.grant))
	if b.validUntil() > b.grant.Return {
		text += fmt.Sprintf(", and valid until %s (%s)", i.at(b.validUntil()), b.lastSeen().Kind)
	}
	i.add(Overlap, text, a.grant, b.grant, a.proof(until), a.lastSeen(), b.lastSeen())
}

// proof is the event that says that a lease was as it was until then: the downgrade if that ended
// it, or what saw it valid.
func (l *lease) proof(until time.Duration) Event {
	if until < l.validUntil() {
		return *l.downgrade
	}
	return l.lastSeen()
}

// who tells leases apart: "A3f (client c1/w2, token 5)".
func who(l *lease) string {
	role := ""
	if !l.writes() {
		role = "reader, "
	}
	return fmt.Sprintf("%s (%sclient %s/w%d, token %d)", l.grant.Owner, role, l.grant.Client, l.grant.Worker, l.grant.Token)
}

// tokens compares each grant with the leases that come before it by their tokens.
func (i *inspector) tokens() {
	var before preceding
	var same []*lease // readers with the token of the one before: there is no order among them
	for n, l := range i.leases {
		if n > 0 && i.twins(i.leases[n-1], l) {
			i.twice(i.leases[n-1], l)
		}
		if len(same) > 0 && same[0].grant.Token != l.grant.Token {
			for _, reader := range same {
				before.add(reader)
			}
			same = same[:0]
		}
		i.compare(&before, l)
		if l.writes() {
			before.add(l)
		} else {
			same = append(same, l)
		}
	}
}

// preceding is what is known of the leases that come before one: which was asked for last, which
// was seen last, and which was the last that excluded readers. writer is the last writer, and gone
// the lease before it that was seen last.
type preceding struct {
	asked, seen, alone, writer, gone *lease
}

func (p *preceding) add(l *lease) {
	if l.writes() {
		p.writer, p.gone = l, p.seen
	}
	if p.asked == nil || l.grant.Call > p.asked.grant.Call {
		p.asked = l
	}
	if p.seen == nil || l.validUntil() > p.seen.validUntil() {
		p.seen = l
	}
	if l.writes() && (p.alone == nil || l.aloneUntil() > p.alone.aloneUntil()) {
		p.alone = l
	}
}

// compare compares a grant with what comes before it.
func (i *inspector) compare(before *preceding, l *lease) {
	if before.asked != nil && before.asked.grant.Call > l.grant.Return {
		i.disordered(l, before.asked)
	}
	if a := before.alone; a != nil && !l.writes() && a.aloneUntil() > l.grant.Return {
		i.acted(a, a.aloneUntil(), l, a)
	}
	if g := before.gone; g != nil && !l.writes() && g.validUntil() > l.grant.Return {
		i.acted(g, g.validUntil(), l, before.writer)
	}
	if s := before.seen; s != nil && l.writes() && s.validUntil() > l.grant.Return {
		i.acted(s, s.validUntil(), l, l)
	}
}

// twins reports whether two leases are writers' with one token.
func (i *inspector) twins(a, b *lease) bool {
	return a.writes() && b.writes() && a.grant.Token == b.grant.Token
}

func (i *inspector) twice(a, b *lease) {
	i.add(TokenTwice, fmt.Sprintf("lease %s was granted at %s, lease %s at %s, with the same token",
		who(a), i.interval(a.grant), who(b), i.interval(b.grant)), a.grant, b.grant)
}

func (i *inspector) disordered(first, later *lease) {
	if i.misplaced[later] || i.twins(first, later) {
		return
	}
	i.shown[later], i.misplaced[later] = true, true
	wrong := "a smaller token"
	if first.grant.Token == later.grant.Token {
		wrong = "the token of a reader"
	}
	i.add(TokenOrder, fmt.Sprintf("lease %s was granted by %s, and lease %s was only asked for at %s, with %s",
		who(first), i.at(first.grant.Return), who(later), i.at(later.grant.Call), wrong), first.grant, later.grant)
}

// acted tells of a lease that was valid when a newer one was granted, which has to come after its
// end because of a writer: one of the two, or one between them.
func (i *inspector) acted(older *lease, until time.Duration, newer, writer *lease) {
	if len(older.seen) == 0 || i.shown[older] || i.twins(older, newer) {
		return
	}
	i.shown[older] = true
	larger := "with a larger token"
	if older.grant.Token == newer.grant.Token {
		larger = "which comes after it"
	}
	if writer != older && writer != newer {
		larger += fmt.Sprintf(" and after that of %s", who(writer))
	}
	last := older.proof(until)
	i.add(ActAfterGrant, fmt.Sprintf("lease %s was still valid at %s (%s), and lease %s, %s, had been granted by %s",
		who(older), i.interval(last), last.Kind, who(newer), larger, i.at(newer.grant.Return)), older.grant, newer.grant, writer.grant, last, older.lastSeen())
}

// revivals compares each lease with its own end.
func (i *inspector) revivals() {
	for _, l := range i.leases {
		if l.over == nil || l.validUntil() <= l.over.Return {
			continue
		}
		last := l.lastSeen()
		i.add(Revived, fmt.Sprintf("lease %s was valid at %s (%s), and had ended by %s (%s)",
			who(l), i.interval(last), last.Kind, i.at(l.over.Return), strings.TrimSpace(string(l.over.Kind)+" "+l.over.Error)),
			l.grant, *l.over, last)
	}
}
