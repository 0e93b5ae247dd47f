package quorumlock

import (
	"context"
	"slices"
	"weak"
)

// A joint lease ends with the first of its tenures, in two steps. With the mutex of that hold it
// is declared over, and its context ends. The others are given back without that mutex: those are
// holds too, and two that end at the same time would wait for each other.

// joints are the joint leases that a tenure is part of: those that end with it, and then those
// that have, and hold other locks that are still to be given back.
type joints struct {
	all   []joint
	ended []*JointLease
}

// joint is a joint lease, which it does not keep from being collected, and found to be a leak, and
// the end of its context, for which somebody may wait who keeps nothing else. That keeps the lease
// only by contexts that are made of its own.
type joint struct {
	lease  weak.Pointer[JointLease]
	cancel context.CancelCauseFunc
}

// join has a joint lease end when the tenure does; the error is why that is over already.
func (t *tenure) join(l *JointLease) error {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	if t.over != nil {
		return t.over
	}
	if t.joints == nil {
		t.joints = &joints{}
	}
	t.joints.all = append(slices.DeleteFunc(t.joints.all, joint.isOver), joint{weak.Make(l), l.cancel})
	return nil
}

// isOver reports whether a joint lease has ended, or was collected.
func (j joint) isOver() bool {
	l := j.lease.Value()
	if l == nil {
		j.cancel(ErrLeaked)
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over != nil
}

// end ends them. The mutex of the hold is held.
func (js *joints) end(cause error) {
	if js == nil {
		return
	}
	for _, j := range js.all {
		switch l := j.lease.Value(); {
		case l == nil:
			j.cancel(cause)
		case l.conclude(cause):
			js.ended = append(js.ended, l)
		}
	}
}

// giveBack gives back what they hold besides, once the hold has ended and its mutex is not held
// any more.
func (js *joints) giveBack() {
	if js == nil {
		return
	}
	for _, l := range js.ended {
		l.giveBack()
	}
}
