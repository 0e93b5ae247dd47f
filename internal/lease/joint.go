package lease

import (
	"slices"
)

// Dependent ends when a lease does: a joint lease that the lease is part of.
type Dependent interface {
	// IsOver reports whether it has ended already.
	IsOver() bool
	// MarkEnded ends it, with the mutex of the grant held. If that makes other leases end,
	// MarkEnded returns the function that releases them, which is then called without that mutex.
	MarkEnded(cause error) (release func())
}

// dependents lists what ends with a lease.
//
// That takes two steps. With the mutex of the grant held, markDependents ends each. Without that
// mutex, releaseDependents releases the other leases. They belong to grants too, and two that end at the same
// time would otherwise wait for each other.
type dependents struct {
	all      []Dependent
	releases []func()
}

// Join makes d end when this lease does. If the lease is already over, it returns the cause.
func (l *Lease) Join(d Dependent) error {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.endCause != nil {
		return l.endCause
	}
	ds := &l.needExtra().dependents
	ds.all = append(slices.DeleteFunc(ds.all, Dependent.IsOver), d)
	return nil
}

// markDependents ends the dependents. Requires l.grant.mu.
func (l *Lease) markDependents(cause error) {
	if l.extra == nil {
		return
	}
	ds := &l.extra.dependents
	for _, d := range ds.all {
		if release := d.MarkEnded(cause); release != nil {
			ds.releases = append(ds.releases, release)
		}
	}
}

// releaseDependents releases the other leases. It is called once, after the lease has ended, without
// the mutex of its grant.
func (l *Lease) releaseDependents() {
	if l.extra == nil {
		return
	}
	for _, release := range l.extra.dependents.releases {
		release()
	}
}
