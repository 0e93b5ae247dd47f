package history

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A lease that a client has resumed has several handles: one for its acquisition, and one for each resumption. They
// have one owner and one token, and are one lease for all other clients.
//
// The lease excludes others while any of its clients sees it valid, until one of them frees the lock: by a release,
// by the end of a lease that it did not detach, or by a forced release of the owner. The other clients learn of that
// late. So the checker ignores their acts after that. But a resumption always proves that
// no lease with a larger token had been granted by its call: a late operation may put the lock back for an owner that
// freed it, but not behind a larger token. Only a reader may have had the lock meanwhile, since readers get the token
// of the writer before them.
//
// After some of these calls, no client can resume the lease: the forced release of the owner, and the release of a
// resumed lease.

// sharedID identifies a lease by what its handles have in common.
type sharedID struct {
	of           Type
	owner, names string
	token        uint64
}

func (e Event) sharedID() sharedID {
	return sharedID{e.Of, e.Owner, strings.Join(e.Names, "\x00"), e.Token}
}

// share merges the handles of each lease that was resumed, or whose owner was released by force.
func share(all []*lease, events []Event) []*lease {
	resumed, forced := map[sharedID][]*lease{}, map[sharedID][]Event{}
	for _, e := range events {
		switch {
		case e.Kind == Resume && e.Succeeded():
			resumed[e.sharedID()] = nil
		case e.Kind == ReleaseOwner:
			forced[e.sharedID()] = append(forced[e.sharedID()], e)
		}
	}
	if len(resumed)+len(forced) == 0 {
		return all
	}
	alone := make([]*lease, 0, len(all))
	var order []sharedID
	for _, l := range all {
		key := l.grant.sharedID()
		handles, several := resumed[key]
		if !several && forced[key] == nil {
			alone = append(alone, l)
			continue
		}
		if handles == nil {
			order = append(order, key)
		}
		resumed[key] = append(handles, l)
	}
	for _, key := range order {
		alone = append(alone, merge(resumed[key], forced[key], readersOf(all, key.token)))
	}
	return alone
}

// readersOf lists the readers with this token.
func readersOf(all []*lease, token uint64) []*lease {
	var readers []*lease
	for _, l := range all {
		if !l.writes() && l.grant.Token == token {
			readers = append(readers, l)
		}
	}
	return readers
}

// merge makes one lease of its handles. The grant may be missing in the history: then it was at any time before the
// first resumption returned. readers have the token of the lease.
func merge(handles []*lease, forced []Event, readers []*lease) *lease {
	whole := &lease{handles: handles}
	if i := slices.IndexFunc(handles, func(h *lease) bool { return h.grant.Kind == Acquire }); i >= 0 {
		whole.grant = handles[i].grant
	} else {
		first := slices.MinFunc(handles, func(a, b *lease) int { return cmp.Compare(a.grant.Return, b.grant.Return) })
		whole.grant = first.grant
		whole.grant.Call = 1
	}
	until := whole.free(forced)
	for _, h := range handles {
		if h.grant.Kind == Resume && (!whole.writes() || !readBetween(readers, until, h.grant)) {
			whole.seen = append(whole.seen, h.grant)
		}
		for _, e := range h.seen {
			if e.Call <= until {
				whole.seen = append(whole.seen, e)
			}
		}
		if d := h.downgrade; d != nil && (whole.downgrade == nil || d.Call < whole.downgrade.Call) {
			whole.downgrade = d
		}
	}
	slices.SortStableFunc(whole.seen, func(a, b Event) int { return cmp.Compare(a.Call, b.Call) })
	return whole
}

// readBetween reports whether a reader may have had the lock between the time when it was freed and a resumption.
func readBetween(readers []*lease, freed time.Duration, resumed Event) bool {
	return slices.ContainsFunc(readers, func(r *lease) bool {
		return r.grant.Return > freed && r.grant.Call < resumed.Return
	})
}

// free records which call made all handles void, and which resumptions came after that. It returns a time until which
// no client can have freed the lock.
func (l *lease) free(forced []Event) (until time.Duration) {
	until = latest
	for _, e := range forced {
		until = min(until, e.Call)
		l.freeFinally(e)
	}
	for _, h := range l.handles {
		until = min(until, h.keptUntil())
		if h.grant.Kind == Resume && h.released != nil {
			l.freeFinally(*h.released)
		}
	}
	for _, h := range l.handles {
		if h.grant.Kind == Resume && l.freed != nil && h.grant.Call > l.freed.Return {
			l.afterwards = append(l.afterwards, h.grant)
		}
	}
	return until
}

// freeFinally records a call after which no client can resume the lease, if it succeeded.
func (l *lease) freeFinally(e Event) {
	if e.Succeeded() && (l.freed == nil || e.Return < l.freed.Return) {
		l.freed = &e
	}
}

// keptUntil is a time until which the client of a handle cannot have freed the lock. A client that records no end has
// left the lock to the nodes.
func (l *lease) keptUntil() time.Duration {
	until := latest
	if l.released != nil {
		until = l.released.Call
	}
	if l.over != nil && !l.over.Succeeded() || l.over != nil && l.over.Kind == Lost {
		until = min(until, l.validUntil()) // the client has released it since, by itself
	}
	return until
}
