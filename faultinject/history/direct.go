package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// inspector looks for violations of one name by comparing times.
//
// The leases of a name have one order, by token; a writer comes before the readers that have
// its token, and among these there is none. There are instants for all steps of the model
// unless one that comes before another, by this order, was called after that had returned.
// What comes before the grant of a lease are the grants of those before it; what they saw
// valid, if it is a writer's; and what saw those of writers before they became readers, if
// it is a reader's, and all that comes before the writer before it. Of a lease, the first
// return is that of its grant. So it is enough to compare the grant of each lease with the
// calls of those before it, and each lease with its own end.
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
