package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"weak"

	"github.com/quorumlock/quorumlock/internal/lease"
)

// JointLease is the right to act as the holder of all locks of a [Join]. It ends when the first of
// them does, and the others are then released. It must be released. A joint lease that is garbage
// collected without a Release is a leak of each of its locks. It is safe for concurrent use.
type JointLease struct {
	joined *Joined
	ctx    context.Context //nolint:containedctx // the result of Context
	// cancel ends ctx. interrupt ends the wait for the next lock.
	cancel, interrupt context.CancelCauseFunc

	mu    sync.Mutex
	parts []*Lease
	// granted is set once all locks are held. Until then no work was done under any of them.
	granted bool
	// endCause is why the joint lease has ended.
	endCause error
	// releasesBegun is done when the release of all locks has begun. releases has the rounds that
	// nodes must confirm, failures the errors of the other locks.
	releasesBegun sync.WaitGroup
	releases      []*lease.Release
	failures      []error
}

func newJointLease(ctx context.Context, j *Joined, interrupt context.CancelCauseFunc) *JointLease {
	l := &JointLease{joined: j, interrupt: interrupt}
	over, cancel := context.WithCancelCause(context.Background())
	l.ctx, l.cancel = jointContext{Context: over, values: ctx, lease: l}, cancel
	l.releasesBegun.Add(1)
	return l
}

// add appends the lease of the next step. It reports false if the joint lease is over.
func (l *JointLease) add(part *Lease) bool {
	l.mu.Lock()
	if l.endCause != nil {
		l.mu.Unlock()
		return false
	}
	l.parts = append(l.parts, part)
	l.mu.Unlock()
	if over := part.lease.Join(jointRef{weak.Make(l), l.cancel}); over != nil {
		l.end(over)
	}
	return true
}

// markGranted says that all locks are held.
func (l *JointLease) markGranted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.granted = true
}

// leases returns the leases acquired so far.
func (l *JointLease) leases() []*Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parts
}

// Leases returns the leases of the locks, in the order of acquisition: one for each lock, or one
// for several names that were taken in one step. They have the owner ids and
// the times of validity, which a JointLease lacks. Release the JointLease, not one of these: with
// one of them, all of it ends.
func (l *JointLease) Leases() []*Lease { return slices.Clone(l.leases()) }

// WaiveMinHold makes Release free all locks at once, as [Lease.WaiveMinHold] does.
func (l *JointLease) WaiveMinHold() {
	for _, part := range l.leases() {
		part.WaiveMinHold()
	}
}

// end ends the joint lease, unless it has ended, and begins the releases.
func (l *JointLease) end(why error) {
	if l.markEnded(why) {
		l.beginReleases()
	}
}

// markEnded marks the joint lease as over, and reports false if it was over before. After true, the
// caller must call beginReleases. The caller may hold the mutex of a grant.
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

// beginReleases begins to release all locks, and waits for none. It is called once, with no mutex
// of a grant held.
func (l *JointLease) beginReleases() {
	defer l.releasesBegun.Done()
	l.mu.Lock()
	granted := l.granted
	l.mu.Unlock()
	for _, part := range l.leases() {
		if !granted {
			part.WaiveMinHold()
		}
		if r, err := part.beginRelease(); r != nil {
			l.releases = append(l.releases, r)
		} else if err != nil {
			l.failures = append(l.failures, err)
		}
	}
}

// Context returns a context that ends when the first of the locks does, by local time, with the
// reason as its cause. The network cannot delay that. It has the values of the context that
// acquired the locks, but not its deadline. Acquire of any of the locks treats the lock as already
// held if it gets this context. Permits are the exception: they are never nested. [Lock.Token] and
// [Semaphore.Slots] find the tokens in it.
func (l *JointLease) Context() context.Context {
	if l.joined == nil {
		return endedContext(l.Err())
	}
	return l.ctx
}

// Err returns nil while all locks are held. After that it returns why the first of them ended, as
// [Lease.Err] does, or ErrReleased. It is exact: it reads the clock.
func (l *JointLease) Err() error {
	if l.joined == nil {
		return invalid(zeroValue)
	}
	l.mu.Lock()
	over, held := l.endCause, l.parts
	l.mu.Unlock()
	for i := 0; over == nil && i < len(held); i++ {
		over = held[i].Err()
	}
	return over
}

// joinLostError returns an error if one of the locks is over.
func (l *JointLease) joinLostError() error {
	if err := l.Err(); err != nil {
		return fmt.Errorf("%w: %w", errJoinLost, err)
	}
	return nil
}

// Token returns the fencing token of one name of one of the locks, as [Lease.Token] does. It is 0
// if that name of the lock was not joined. Names that were taken in one step share a token.
func (l *JointLease) Token(lock Joinable, name string) uint64 {
	if other, ok := lock.(*Lock); lock == nil || ok && other == nil || l.joined == nil {
		return 0
	}
	parts, _ := lock.parts()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, s := range l.joined.steps {
		for _, p := range s.parts {
			for _, q := range parts {
				if q.shown() == name && p.compare(q) == 0 && i < len(l.parts) {
					return l.parts[i].Token()
				}
			}
		}
	}
	return 0
}

// Release releases all of the locks, and waits until enough nodes have confirmed each, as
// [Lease.Release] does. If the joint lease had ended before, the error says how. Otherwise Release
// joins the errors of the locks whose release failed.
func (l *JointLease) Release(context.Context) error {
	before := l.Err()
	if l.joined == nil {
		return before
	}
	l.end(cmp.Or(before, ErrReleased))
	l.releasesBegun.Wait()
	errs := slices.Clone(l.failures)
	for _, r := range l.releases {
		errs = append(errs, r.Wait())
	}
	switch {
	case before != nil:
		return before
	default:
		return errors.Join(errs...)
	}
}

// jointContext is a context that carries the leases of several locks. Like a [leaseContext], it has
// the values of another context besides its own, unless values is nil.
type jointContext struct {
	context.Context
	values context.Context
	lease  *JointLease
}

// Value asks all leases first, then the context of the joint lease, then values.
func (c jointContext) Value(key any) any {
	switch key.(type) {
	case anyKey, heldKey, tokenKey, *permitQuery:
		for _, part := range c.lease.leases() {
			if v := part.contextValue(key); v != nil {
				return v
			}
		}
	}
	if v := c.Context.Value(key); v != nil || c.values == nil {
		return v
	}
	return c.values.Value(key)
}

// jointRef makes a joint lease end with one of its locks: it implements lease.Dependent. Its
// reference is weak, so that a leak can be detected. It has the cancel
// function of its context, as a caller may hold that context alone. A context made from that one
// keeps the joint lease alive.
type jointRef struct {
	lease  weak.Pointer[JointLease]
	cancel context.CancelCauseFunc
}

// IsOver reports whether the joint lease has ended, or was collected.
func (j jointRef) IsOver() bool {
	l := j.lease.Value()
	if l == nil {
		j.cancel(ErrLeaked)
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endCause != nil
}

// MarkEnded implements lease.Dependent.
func (j jointRef) MarkEnded(cause error) (release func()) {
	l := j.lease.Value()
	switch {
	case l == nil:
		j.cancel(cause)
	case l.markEnded(cause):
		return l.beginReleases
	}
	return nil
}
