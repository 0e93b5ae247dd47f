package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

type subject struct {
	of   Type
	name string
	slot int // number of a permit; none for a lock, and for a semaphore as a whole
}

// none is the slot of a subject without one.
const none = -1

// String describes the subject.
func (s subject) String() string {
	text := s.name
	if s.of != Lock {
		text = string(s.of) + " " + text
	}
	if s.slot != none {
		text += fmt.Sprintf(", slot %d", s.slot)
	}
	return text
}

func (e Event) subject() subject { return subject{e.Of, e.Name, none} }

// exclusive returns the subjects that the event's lease holds exclusively: locks, and numbered permits.
func (e Event) exclusive() []subject {
	if e.Of == Lock {
		return []subject{e.subject()}
	}
	all := make([]subject, len(e.Slots))
	for i, slot := range e.Slots {
		all[i] = subject{e.Of, e.Name, slot}
	}
	return all
}

// byName lists the names of all events, and the events and leases of each.
func (h *History) byName() (names []subject, parts map[subject]*History) {
	parts = map[subject]*History{}
	for _, e := range h.events {
		s := e.subject()
		if parts[s] == nil {
			parts[s] = &History{}
			names = append(names, s)
		}
		parts[s].events = append(parts[s].events, e)
	}
	for _, l := range h.leases {
		of := parts[l.grant.subject()]
		of.leases = append(of.leases, l)
	}
	slices.SortFunc(names, compareSubjects)
	return names, parts
}

// bySubject lists the subjects that leases hold exclusively, with these leases. The leases are in the order of their
// grants: by token, with a writer before the readers that have its token. Readers with one token may have any order;
// they are ordered by return.
func (h *History) bySubject() (exclusive []subject, leases map[subject][]*lease) {
	leases = map[subject][]*lease{}
	for _, e := range h.events {
		for _, s := range e.exclusive() {
			if _, ok := leases[s]; !ok {
				leases[s] = nil
				exclusive = append(exclusive, s)
			}
		}
	}
	for _, l := range h.leases {
		for _, s := range l.grant.exclusive() {
			leases[s] = append(leases[s], l)
		}
	}
	for _, of := range leases {
		slices.SortStableFunc(of, byGrant)
	}
	slices.SortFunc(exclusive, compareSubjects)
	return exclusive, leases
}

func byGrant(a, b *lease) int {
	byToken := cmp.Compare(a.grant.Token, b.grant.Token)
	switch {
	case byToken != 0:
		return byToken
	case a.writes() && b.writes():
		return 0
	case a.writes():
		return -1
	case b.writes():
		return 1
	default:
		return cmp.Compare(a.grant.Return, b.grant.Return)
	}
}

func compareSubjects(a, b subject) int {
	return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.name, b.name), cmp.Compare(a.slot, b.slot))
}

type lease struct {
	grant Event
	// seen are the events that saw the lease valid, in the order of their calls: acts, and successful releases.
	seen []Event
	// over is the event by whose return the lease had ended, the earliest of several; nil if the end was not seen.
	over *Event
	// downgrade is the first event that made the lease a reader's, or may have; nil if there is none.
	downgrade *Event
}

// leasesOf lists the leases in a history, in the order of their acquisitions. Events about a lease come after its
// grant.
func leasesOf(events []Event) []*lease {
	var all []*lease
	byID := map[id]*lease{}
	for _, e := range events {
		if e.granted() {
			l := &lease{grant: e}
			byID[id{e.Client, e.Op}] = l
			all = append(all, l)
		}
	}
	for _, e := range events {
		if l := byID[id{e.Client, e.Lease}]; l != nil && e.ofLease() {
			l.add(e)
		}
	}
	return all
}

// add records an event about the lease. A call without a return may not have happened. But from the call of a
// downgrade on, the lease may be a reader's, even after an error.
func (l *lease) add(e Event) {
	if e.Kind == Downgrade && l.downgrade == nil {
		l.downgrade = &e
	}
	if !e.returned() {
		return
	}
	valid := e.Error == "" && e.Kind != Lost
	if valid {
		l.seen = append(l.seen, e)
	}
	ended := !valid && e.Kind != Downgrade || e.Kind == Release
	if ended && (l.over == nil || e.Return < l.over.Return) {
		l.over = &e
	}
}

// lastSeen is the last called event that saw the lease valid: the grant if there is no other.
func (l *lease) lastSeen() Event {
	if len(l.seen) == 0 {
		return l.grant
	}
	return l.seen[len(l.seen)-1]
}

// validUntil is a time until which the lease had certainly not ended: the call of the last event that saw it
// valid.
func (l *lease) validUntil() time.Duration { return l.lastSeen().Call }

// writes reports whether the lease was granted to a writer, which excludes all others.
func (l *lease) writes() bool { return !l.grant.Reads }

// aloneUntil is a time until which the lease of a writer certainly excluded readers: while it was valid, and before
// its first downgrade. It is 0 for a reader.
func (l *lease) aloneUntil() time.Duration {
	switch {
	case !l.writes():
		return 0
	case l.downgrade != nil:
		return min(l.downgrade.Call, l.validUntil())
	default:
		return l.validUntil()
	}
}
