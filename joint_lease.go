package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"weak"
)

// JointLease is the right to act as the holder of all locks of a [Join]. It is over when the
// first of them is, and the others are then released. It must be released; one that is garbage
// collected without that is a leak of each of its locks, as a [Lease] is. It is safe for
// concurrent use.
type JointLease struct {
	joined *Joined
	ctx    context.Context //nolint:containedctx // it is what the lease has to give
	// cancel ends that, interrupt what is still being waited for.
	cancel, interrupt context.CancelCauseFunc

	mu    sync.Mutex
	parts []*Lease
	// endCause is why it has ended.
	endCause error
	// releasesBegun is done when the release of all locks has begun; releases are those that nodes
	// have to confirm, and failures what became of the others.
	releasesBegun sync.WaitGroup
	releases      []*releaseRound
	failures      []error
}

func newJointLease(ctx context.Context, j *Joined, interrupt context.CancelCauseFunc) *JointLease {
	l := &JointLease{joined: j, interrupt: interrupt}
	over, cancel := context.WithCancelCause(context.Background())
	l.ctx, l.cancel = jointContext{Context: over, values: ctx, lease: l}, cancel
	l.releasesBegun.Add(1)
	return l
}

// add adds what the next step has got. It does not if the joint lease is over.
func (l *JointLease) add(h *Lease) bool {
	l.mu.Lock()
	if l.endCause != nil {
		l.mu.Unlock()
		return false
	}
	l.parts = append(l.parts, h)
	l.mu.Unlock()
	if over := h.lease.joinTo(l); over != nil {
		l.end(over)
	}
	return true
}

// leases are those that it has so far.
func (l *JointLease) leases() []*Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts
}

// end ends it, if it has not ended yet.
func (l *JointLease) end(why error) {
	if l.markEnded(why) {
		l.beginReleases()
	}
}

// markEnded has it be over, and reports whether it was not before: then its locks are to be given
// back. The mutex of a hold may be held.
func (l *JointLease) markEnded(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.endCause != nil {
		return false
	}
	l.endCause = why
	l.cancel(why)
	l.interrupt(why)
	return true
}

// beginReleases begins to release all of its locks, and waits for none. It is called once, without
// the mutex of any hold.
func (l *JointLease) beginReleases() {
	defer l.releasesBegun.Done()
	for _, h := range l.leases() {
		if r, err := h.beginRelease(); r != nil {
			l.releases = append(l.releases, r)
		} else if err != nil {
			l.failures = append(l.failures, err)
		}
	}
}

// Context ends when the first of the locks does, by local time and whatever the network does,
// with the reason as its cause. It has the values of the context that acquired them, and not its
// deadline. Passed to Acquire of any of the locks, it says that it is held already; with it,
// [Lock.Token] finds the tokens.
func (l *JointLease) Context() context.Context { return l.ctx }

// Err is nil while all of the locks are held, and then the reason why the first of them is not
// any more, as with [Lease.Err]; or ErrReleased. It is exact: it looks at the clock.
func (l *JointLease) Err() error {
	l.mu.Lock()
	over, held := l.endCause, l.parts
	l.mu.Unlock()
	for i := 0; over == nil && i < len(held); i++ {
		over = held[i].Err()
	}
	return over
}

// joinLostError says that one of the locks is over, if it is.
func (l *JointLease) joinLostError() error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", errJoinLost, err)
	}
	return nil
}

// Token is the fencing token of one name of one of the locks, as [Lease.Token] is; 0 if that was
// not joined. Names that were taken in one step share theirs.
func (l *JointLease) Token(lock Acquirer, name string) uint64 {
	if lock == nil {
		return 0
	}
	parts, _ := lock.parts()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.joined.steps {
		for _, p := range s.parts {
			for _, q := range parts {
				if q.name == name && p.compare(q) == 0 && i < len(l.parts) {
					return l.parts[i].Token()
				}
			}
		}
	}
	return 0
}

// Release gives all of the locks back, and waits until so many nodes have confirmed that others
// can have them, as [Lease.Release] does. If the lease had ended before, the error says how;
// otherwise it joins those of all locks that were not released as they should.
func (l *JointLease) Release(ctx context.Context) error {
	before := l.Err()
	l.end(cmp.Or(before, ErrReleased))
	l.releasesBegun.Wait()
	errs := slices.Clone(l.failures)
	for _, r := range l.releases {
		errs = append(errs, r.wait())
	}
	switch {
	case ctx == nil:
		return errNilContext
	case before != nil:
		return before
	default:
		return errors.Join(errs...)
	}
}

// jointContext is a context that knows the leases of several locks. As a [leaseContext], it has the
// values of another besides its own, if there is another.
type jointContext struct {
	context.Context
	values context.Context
	lease  *JointLease
}

// Value asks all of the leases for what they know of the locks.
func (c jointContext) Value(key any) any {
	switch key.(type) {
	case anyKey, heldKey, tokenKey, *permitQuery:
		for _, h := range c.lease.leases() {
			if v := h.contextValue(key); v != nil {
				return v
			}
		}
	}
	if v := c.Context.Value(key); v != nil || c.values == nil {
		return v
	}
	return c.values.Value(key)
}

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
