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
// Tokens order the leases of a name. A writer comes before the readers that have its token; these readers have no
// order among themselves. A history is legal unless one step comes before another by this order, but was called after
// the other had returned.
//
// Before the grant of a lease come the grants of all earlier leases. Before a writer's grant come all acts of earlier
// leases. Before a reader's grant come the acts of earlier writers until their downgrades, and everything that comes
// before the last of these writers. The first return of a lease is the return of its grant. So it suffices to compare
// each grant with the calls of earlier leases, and each lease with its own end.
type inspector struct {
	finder
	leases []*lease // in the order of their grants
	// shown are leases with a reported violation: one for each lease is enough. Two writers with one token are
	// reported as such.
	shown map[*lease]bool
	// misplaced are leases whose token was reported to be out of order. This is reported besides an overlap: where
	// clocks step, the order is the only guarantee.
	misplaced map[*lease]bool
}

// inspect lists violations: at least one if there are any.
func inspect(of subject, leases []*lease, start time.Duration) []Violation {
	i := &inspector{
		finder: finder{subject: of, start: start}, leases: leases, shown: map[*lease]bool{}, misplaced: map[*lease]bool{},
	}
	i.overlaps()
	i.tokens()
	i.revivals()
	return i.found
}

// overlaps compares the times at which leases were certainly valid, regardless of their tokens: from the return of
// the grant to the last call that saw the lease valid.
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

// overlap reports whether lease a was valid at an instant at which b was valid. The grant of a returned no later than
// the grant of b, and b was valid at some instant of its acquisition. The times say until when each certainly
// excluded the other.
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

// proof returns the event that shows the state of the lease until then: its downgrade, or the last event that saw it
// valid.
func (l *lease) proof(until time.Duration) Event {
	if until < l.validUntil() {
		return *l.downgrade
	}
	return l.lastSeen()
}

// who identifies a lease: "A3f (client c1/w2, token 5)".
func who(l *lease) string {
	role := ""
	if !l.writes() {
		role = "reader, "
	}
	return fmt.Sprintf("%s (%sclient %s/w%d, token %d)", l.grant.Owner, role, l.grant.Client, l.grant.Worker, l.grant.Token)
}

// tokens compares each grant with the leases that have smaller tokens.
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

// preceding summarises the leases that come before another by their tokens: the last requested, the last seen valid,
// and the last that excluded readers. writer is the last writer. Of the leases before it, gone is the one seen last.
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

// twins reports whether two leases are both writers' and have one token.
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

// acted reports a lease that was valid when a newer one was granted, although a writer requires its end before: one
// of the two leases, or one between them.
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
