package history

import "time"

// lease is a lease that was granted, and what is known about it.
type lease struct {
	grant Event
	// seen are the events that saw it valid, in the order of their calls: acts, and
	// releases that succeeded.
	seen []Event
	// over is the event by whose return it had ended, of several the earliest; nil if the
	// end was not seen.
	over *Event
	// downgrade is the first that made it a reader's, or may have; nil if there is none.
	downgrade *Event
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
		if l := byID[id{e.Client, e.Lease}]; l != nil && e.ofLease() {
			l.add(e)
		}
	}
	return all
}

// add takes an event about the lease. What has no return may not have happened; but from the
// call of a downgrade on, whatever comes of it, the lease may be a reader's.
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

// writes reports whether it was granted to a writer, who is alone.
func (l *lease) writes() bool { return !l.grant.Reads }

// aloneUntil is a time until which the lease of a writer certainly excluded readers: while it
// was valid, and no longer than until it was to be a reader's. It is 0 for that of a reader.
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
