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
	// Overlap: two leases were valid at one instant.
	Overlap ViolationKind = "overlap"
	// TokenOrder: a lease that was granted after another one has the smaller token.
	TokenOrder ViolationKind = "token order"
	// TokenTwice: two leases have the same token.
	TokenTwice ViolationKind = "token twice"
	// ActAfterGrant: a lease was seen valid after one with a larger token was granted.
	ActAfterGrant ViolationKind = "act after a newer grant"
	// Revived: a lease was seen valid after it was seen to have ended.
	Revived ViolationKind = "revived"
	// Unexplained: porcupine finds no order of the events that a lock would allow, and no
	// pair of them shows why.
	Unexplained ViolationKind = "unexplained"
)

// Violation is something that no lock with expiry and tokens does.
type Violation struct {
	Kind ViolationKind
	// Name is that of the lock.
	Name string
	// Events are those that prove it, the grants of the leases first. There are none for
	// Unexplained.
	Events []Event
	// Text says in words what is wrong. Its times count from the first call.
	Text string
}

// String is the violation as a sentence.
func (v Violation) String() string { return fmt.Sprintf("%s of %q: %s", v.Kind, v.Name, v.Text) }

// inspector looks for violations of one name by comparing times.
//
// The steps of the model have one order: leases by token, and of each the grant, what saw
// it valid, the end. There are instants for all steps unless one that comes earlier in
// this order was called after a later one had returned. Of a lease, the last call is that
// of its grant or of what saw it valid, and the first return that of its grant. So it is
// enough to compare the grant of each lease with the calls of those with smaller tokens,
// and each lease with its own end.
type inspector struct {
	name   string
	start  time.Duration
	leases []*lease // sorted by token
	found  []Violation
	// shown are leases of which a violation is told already: one is enough. Those with one
	// token are told of as such.
	shown map[*lease]bool
	// misplaced are those whose token is told to be out of order. That is told of a lease
	// besides an overlap: where clocks step, it is all that is promised.
	misplaced map[*lease]bool
}

// inspect lists violations, at least one if there are any.
func inspect(name string, leases []*lease, start time.Duration) []Violation {
	i := &inspector{name: name, start: start, leases: leases, shown: map[*lease]bool{}, misplaced: map[*lease]bool{}}
	i.overlaps()
	i.tokens()
	i.revivals()
	return i.found
}

func (i *inspector) at(t time.Duration) string { return "+" + (t - i.start).String() }

func (i *inspector) interval(e Event) string { return i.at(e.Call) + ".." + i.at(e.Return) }

func (i *inspector) add(kind ViolationKind, text string, events ...Event) {
	i.found = append(i.found, Violation{Kind: kind, Name: i.name, Events: distinct(events), Text: text})
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
	byGrant := slices.SortedStableFunc(slices.Values(i.leases), func(a, b *lease) int {
		return cmp.Compare(a.grant.Return, b.grant.Return)
	})
	var longest *lease
	for _, l := range byGrant {
		if longest != nil && overlap(longest, l) && !i.shown[longest] {
			i.shown[longest] = true
			i.overlapped(longest, l)
		}
		if longest == nil || l.validUntil() > longest.validUntil() {
			longest = l
		}
	}
}

// overlap reports whether a lease was valid at an instant at which another was, whose grant
// returned no earlier. The other was valid at some instant of its acquisition, and until
// it was last seen.
func overlap(a, b *lease) bool {
	throughout := a.grant.Return < b.grant.Call || b.validUntil() > b.grant.Return
	return a.validUntil() > b.grant.Return && throughout
}

func (i *inspector) overlapped(a, b *lease) {
	text := fmt.Sprintf("lease %s was valid %s..%s (%s); lease %s was granted within, at %s",
		who(a), i.at(a.grant.Return), i.at(a.validUntil()), a.lastSeen().Kind, who(b), i.interval(b.grant))
	if b.validUntil() > b.grant.Return {
		text += fmt.Sprintf(", and valid until %s (%s)", i.at(b.validUntil()), b.lastSeen().Kind)
	}
	i.add(Overlap, text, a.grant, b.grant, a.lastSeen(), b.lastSeen())
}

// who tells leases apart: "A3f (client c1/w2, token 5)".
func who(l *lease) string {
	return fmt.Sprintf("%s (client %s/w%d, token %d)", l.grant.Owner, l.grant.Client, l.grant.Worker, l.grant.Token)
}

// tokens compares each grant with the leases that have smaller tokens.
func (i *inspector) tokens() {
	var granted, seen *lease // with a smaller token: the one granted last, and the one seen last
	for n, l := range i.leases {
		if n > 0 && i.leases[n-1].grant.Token == l.grant.Token {
			i.twice(i.leases[n-1], l)
		}
		if granted != nil && granted.grant.Call > l.grant.Return {
			i.disordered(l, granted)
		}
		if seen != nil && len(seen.seen) > 0 && seen.validUntil() > l.grant.Return {
			i.acted(seen, l)
		}
		if granted == nil || l.grant.Call > granted.grant.Call {
			granted = l
		}
		if seen == nil || l.validUntil() > seen.validUntil() {
			seen = l
		}
	}
}

func (i *inspector) twice(a, b *lease) {
	i.add(TokenTwice, fmt.Sprintf("lease %s was granted at %s, lease %s at %s, with the same token",
		who(a), i.interval(a.grant), who(b), i.interval(b.grant)), a.grant, b.grant)
}

func (i *inspector) disordered(larger, smaller *lease) {
	if i.misplaced[smaller] || smaller.grant.Token == larger.grant.Token {
		return
	}
	i.shown[smaller], i.misplaced[smaller] = true, true
	i.add(TokenOrder, fmt.Sprintf("lease %s was granted by %s, and lease %s was only asked for at %s, with a smaller token",
		who(larger), i.at(larger.grant.Return), who(smaller), i.at(smaller.grant.Call)), larger.grant, smaller.grant)
}

func (i *inspector) acted(older, newer *lease) {
	if i.shown[older] || older.grant.Token == newer.grant.Token {
		return
	}
	i.shown[older] = true
	last := older.lastSeen()
	i.add(ActAfterGrant, fmt.Sprintf("lease %s was still valid at %s (%s), and lease %s, with a larger token, had been granted by %s",
		who(older), i.interval(last), last.Kind, who(newer), i.at(newer.grant.Return)), older.grant, newer.grant, last)
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
