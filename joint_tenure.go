package quorumlock

import (
	"context"
	"slices"
	"weak"
)

// A joint lease ends with the first of its tenures, in two steps. With the mutex of that hold it
// is declared over, and its context ends. The others are given back without that mutex: those are
// holds too, and two that end at the same time would wait for each other.

// jointLeases are the joint leases that a tenure is part of: those that end with it, and then those
// that have, and hold other locks that are still to be given back.
type jointLeases struct {
	all   []jointRef
	ended []*JointLease
}

// jointRef is a joint lease, which it does not keep from being collected, and found to be a leak, and
// the end of its context, for which somebody may wait who keeps nothing else. That keeps the lease
// only by contexts that are made of its own.
type jointRef struct {
	lease  weak.Pointer[JointLease]
	cancel context.CancelCauseFunc
}

// joinTo has a joint lease end when the tenure does; the error is why that is over already.
func (t *lease) joinTo(l *JointLease) error {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.endCause != nil {
		return t.endCause
	}
	if t.jointLeases == nil {
		t.jointLeases = &jointLeases{}
	}
	t.jointLeases.all = append(slices.DeleteFunc(t.jointLeases.all, jointRef.isOver), jointRef{weak.Make(l), l.cancel})
	return nil
}

// isOver reports whether a joint lease has ended, or was collected.
func (j jointRef) isOver() bool {
	l := j.lease.Value()
	if l == nil {
		j.cancel(ErrLeaked)
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endCause != nil
}

// markEnded ends them. The mutex of the hold is held.
func (js *jointLeases) markEnded(cause error) {
	if js == nil {
		return
	}
	for _, j := range js.all {
		switch l := j.lease.Value(); {
		case l == nil:
			j.cancel(cause)
		case l.markEnded(cause):
			js.ended = append(js.ended, l)
		}
	}
}

// beginReleases gives back what they hold besides, once the hold has ended and its mutex is not held
// any more.
func (js *jointLeases) beginReleases() {
	if js == nil {
		return
	}
	for _, l := range js.ended {
		l.beginReleases()
	}
}
