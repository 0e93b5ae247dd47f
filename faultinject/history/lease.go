package history

import (
	"cmp"
	"slices"
	"time"
)

// lease is a lease that was granted, and what is known about it.
type lease struct {
	grant Event
	// seen are the events that saw it valid, in the order of their calls: acts, and
	// releases that succeeded.
	seen []Event
	// over is the event by whose return it had ended, of several the earliest; nil if the
	// end was not seen.
	over *Event
}

// leasesOf lists the leases in a history, in the order of their acquisitions. Events about
// a lease come after its grant.
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
		if l := byID[id{e.Client, e.Lease}]; l != nil && e.Kind != Acquire {
			l.add(e)
		}
	}
	return all
}

// add takes an event about the lease. What has no return may not have happened.
func (l *lease) add(e Event) {
	if !e.returned() {
		return
	}
	valid := e.Error == "" && e.Kind != Lost
	if valid {
		l.seen = append(l.seen, e)
	}
	ended := !valid || e.Kind == Release
	if ended && (l.over == nil || e.Return < l.over.Return) {
		l.over = &e
	}
}

// lastSeen is the event with the latest call of those that saw the lease valid: the grant
// if there are no others.
func (l *lease) lastSeen() Event {
	if len(l.seen) == 0 {
		return l.grant
	}
	return l.seen[len(l.seen)-1]
}

// validUntil is a time at which the lease had certainly not ended. It saw that at an
// instant which is no earlier than the call.
func (l *lease) validUntil() time.Duration { return l.lastSeen().Call }

// byName sorts the leases of each name by token, and lists the names that any event is
// about.
func (h *History) byName() (names []string, leases map[string][]*lease) {
	leases = map[string][]*lease{}
	for _, e := range h.events {
		for _, name := range e.Names {
			if _, ok := leases[name]; !ok {
				leases[name] = nil
				names = append(names, name)
			}
		}
	}
	for _, l := range h.leases {
		for _, name := range l.grant.Names {
			leases[name] = append(leases[name], l)
		}
	}
	for _, of := range leases {
		slices.SortStableFunc(of, func(a, b *lease) int { return cmp.Compare(a.grant.Token, b.grant.Token) })
	}
	slices.Sort(names)
	return names, leases
}
