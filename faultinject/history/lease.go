package history

import "time"

// lease is a granted lease and the events about it.
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
// downgrade on, the lease may be a reader's, whatever the result.
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

// validUntil is a time until which the lease had certainly not ended: the last event that saw it valid did so no
// earlier than its call.
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
