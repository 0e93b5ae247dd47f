package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"
)

// Lease is the right to act as the holder of a lock, from its grant until Release,
// loss, Close, or MaxHold. It is safe for concurrent use.
//
// It must be released. A lease that is garbage collected without that is released
// when its next renewal is due, and reported as a leak; what still uses its context
// keeps it.
type Lease struct {
	lease *lease
	// values is the context that acquired it, ctx its own, once somebody has asked for it;
	// guarded by the hold's mutex.
	values  context.Context
	ctx     *leaseContext
	cleanup runtime.Cleanup
	// ended is why this handle has ended; guarded by the hold's mutex.
	ended error
}

// newLease makes a handle on a tenure. Its context ends with that and has the values of
// ctx.
func newLease(ctx context.Context, t *lease) *Lease {
	l := &Lease{lease: t, values: ctx}
	l.cleanup = runtime.AddCleanup(l, onLeak, t)
	return l
}

// onLeak is run for a handle that was collected without a Release. It leaves the rest to
// the next tick of the hold: the goroutine that runs cleanups must not be held up.
func onLeak(t *lease) {
	last := t.releaseHandle()
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	t.leaked = last
}

// Context ends when the lease does, by local time and whatever the network does, with
// the reason as its cause: see [context.Cause] and [Lease.Err]. Of nested leases, which
// share one hold of the lock, it ends with the last. It has the values of the context
// that acquired the lease, and not its deadline. Passed to Acquire, it says that the
// lock is held already.
func (l *Lease) Context() context.Context {
	over := l.lease.context()
	l.lease.grant.mu.Lock()
	defer l.lease.grant.mu.Unlock()
	if l.ctx == nil {
		l.ctx = &leaseContext{Context: over, values: l.values, lease: l}
	}
	return l.ctx
}

// Names are the names of the lock, sorted; of permits, the name of their semaphore.
func (l *Lease) Names() []string { return l.lease.lock.Names() }

// Owner is the id under which nodes know this lease. It was never used before, and will
// never be again, but for leases that are handed over within the client: they keep it.
func (l *Lease) Owner() string { return l.lease.grant.owner }

// Token is the fencing token: a number that is larger for every later lease of any of
// the names, whoever gets it, whatever nodes have lost, and however wrong the clocks of
// clients are; the clocks of nodes must not go back. A resource that remembers the largest token that it has seen, and
// refuses smaller ones, is safe from a holder that was paused and does not know that its
// lease is over; package fence helps with that. It fits in 63 bits and is never 0.
// Nested leases share it, and readers may have that of a writer before them, or of each
// other: see [RWLock.Read]. Of permits, it is that of their slots: see [Lease.Slots].
func (l *Lease) Token() uint64 { return l.lease.token }

// ValidUntil is the end of the lease as far as nodes have confirmed it: by the wall
// clock, for display, as of now. It moves with each renewal. To decide, use Remaining
// or Context, which no step of the wall clock can move.
func (l *Lease) ValidUntil() time.Time {
	c := l.lease.grant.client.clock
	return c.Wall().Add(l.lease.expiry() - c.Now())
}

// Remaining is how long the lease is certainly still valid: what is left of its TTL
// after the time spent acquiring it, and clock drift, or of its MaxHold. It is 0 when the lease has ended.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(l.lease.expiry()-l.lease.grant.client.clock.Now(), 0)
}

// Backing is how many nodes back the lease now, and how many there are. Each renewal
// asks all nodes, also those that were down before, so have returns to want when they
// do. Below the need of the rule the lease is about to end.
func (l *Lease) Backing() (have, want int) {
	g := l.lease.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.client.clock.Now()
	if l.ended != nil || l.lease.overAt(now) != nil {
		return 0, g.claims.Nodes()
	}
	return g.claims.Backing(now), g.claims.Nodes()
}

// Err is nil while the lease is valid. Then it is [*LostError], ErrReleased,
// ErrHoldLimit, ErrLeaked or ErrClosed. It is exact: it looks at the clock.
func (l *Lease) Err() error {
	l.lease.grant.mu.Lock()
	over := l.ended
	l.lease.grant.mu.Unlock()
	return cmp.Or(over, l.lease.err())
}

// Extend renews the lease on every node now, besides the renewals that it makes by
// itself: it lasts a TTL from now. It is the way to prolong a Fixed lease.
//
// It fails with a [*NoQuorumError] if too few nodes confirm it, and the lease is then
// valid as long as it was; with the reason of the end if the lease has ended, as
// nothing revives it; or with ctx's error, while the renewal goes on.
func (l *Lease) Extend(ctx context.Context) error {
	return l.startAndWait(ctx, (*lease).extend)
}

// startAndWait starts a renewal, and waits for what comes of it.
func (l *Lease) startAndWait(ctx context.Context, start func(*lease, chan error) error) error {
	if ctx == nil {
		return errNilContext
	}
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	done := make(chan error, 1)
	if err := start(l.lease, done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-l.lease.context().Done():
		return l.lease.err()
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// Release gives the lock back on every node, and waits until so many have confirmed
// that others can have it. It is sent whatever the state of ctx, from which it takes
// values only; each node's timeout bounds it.
//
// It returns nil once confirmed, and at once for a nested lease, and for one that is handed
// over to the next waiter of this client. A [*NoQuorumError]
// says which nodes did not confirm: they are asked again in the background, and free
// the lock by themselves when its TTL is over. If the lease had ended before, the
// error says how: [*LostError], ErrReleased for a second Release, ErrHoldLimit,
// ErrClosed; it may be called at any time, from any goroutine, and however often.
//
// It also returns a [*LostError] if the lease was still valid by its own time, but fewer nodes
// had it than its rule needs: names were deleted by hand or by force, evicted, or taken by
// another owner. Then another holder may have been at work at the same time. See
// [Hooks.LossFound]. The first answers of the nodes decide:
//
//   - A node that removed all names had the lease.
//   - A node that found a name missing did not have it. An answer that came after the lease's
//     time was over proves nothing, as names run out then. An answer to an operation that
//     may have run before proves nothing. The answer of a node that recovers from a loss of its
//     memory proves nothing: such a node has given the lock to no other.
//   - A node that did not answer may have had it.
//
// Once the need of the rule is met by nodes that removed all names, Release returns at once. Where
// nodes found names missing, it waits until the other answers cannot change the outcome. Each
// answer is bounded by the timeout of its node.
func (l *Lease) Release(ctx context.Context) error {
	err := l.release()
	if ctx == nil {
		return errNilContext
	}
	return err
}

func (l *Lease) release() error {
	r, err := l.beginRelease()
	if r == nil {
		return err
	}
	return r.wait()
}

// beginRelease gives the lock back without waiting. Where nodes have to confirm that, it returns
// what counts them, and else what Release returns.
func (l *Lease) beginRelease() (*releaseRound, error) {
	t := l.lease
	now := t.grant.client.clock.Now()
	before := t.errAt(now)
	if !l.endHandle(before) {
		return nil, l.Err()
	}
	l.cleanup.Stop()
	if !t.releaseHandle() {
		return nil, before
	}
	if before == nil && t.handOver() {
		return nil, nil //nolint:nilnil // nothing to wait for, and no error
	}
	r := newReleaseRound(t)
	if !t.grant.endAt(now, ErrReleased, r) {
		return nil, t.errAt(now)
	}
	if err := t.errAt(now); !errors.Is(err, ErrReleased) {
		return nil, err // its time had run out
	}
	return r, nil
}

// endHandle ends this handle, and reports whether it had not ended yet. before is why the
// lease was over by then, if it was.
func (l *Lease) endHandle(before error) bool {
	l.lease.grant.mu.Lock()
	defer l.lease.grant.mu.Unlock()
	if l.ended != nil {
		return false
	}
	l.ended = cmp.Or(before, ErrReleased)
	return true
}

// extend starts a renewal whose outcome goes to done.
func (t *lease) extend(done chan error) error {
	g := t.grant
	g.mu.Lock()
	now := g.client.clock.Now()
	if t.overAt(now) != nil {
		g.mu.Unlock()
		return t.err()
	}
	g.renew(now, done)
	g.mu.Unlock()
	return nil
}

// lease is the time during which one holder has a hold. Its leases are nested in each
// other. Most holds have one tenure; where they are handed over, one begins as the one
// before ends.
type lease struct {
	grant *grant
	// lock is what its holder asked for: the names are those of the hold.
	lock      *Lock
	token     uint64
	grantedAt time.Duration

	// What follows is guarded by the mutex of the hold.

	// ctx ends with it; nil until somebody asks for it: most leases are released before.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// handles counts its leases, leaked is set when the last of them was collected without
	// a Release, and over is why it has ended; until is the end that was known by then.
	handles         int32
	leaked          bool
	endCause        error
	endedValidUntil time.Duration

	// jointLeases are the joint leases that it is part of, nil if there is none.
	jointLeases *jointLeases
}

// start begins one with a single lease. The mutex of the hold is held.
func (t *lease) start(g *grant, l *Lock, token uint64, now time.Duration) {
	t.grant, t.lock, t.token, t.grantedAt, t.handles = g, l, token, now, 1
	g.lease = t
}

// context is one that ends with it.
func (t *lease) context() context.Context {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancelCause(context.Background())
	}
	if over := t.overAt(t.grant.client.clock.Now()); over != nil {
		t.cancel(over)
	}
	return t.ctx
}

// end ends it, for a reason. The mutex of the hold is held.
func (t *lease) end(cause error) {
	t.endCause, t.endedValidUntil = cause, min(t.grant.validUntil, t.holdLimit())
	if t.cancel != nil {
		t.cancel(cause)
	}
	t.jointLeases.markEnded(cause)
}

// releaseHandle counts down the leases, and reports whether none is left.
func (t *lease) releaseHandle() bool {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	t.handles--
	return t.handles == 0
}

// retainHandle counts one more lease, unless it is over.
func (t *lease) retainHandle() bool {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.overAt(t.grant.client.clock.Now()) != nil || t.handles == 0 {
		return false
	}
	t.handles++
	return true
}

// err says why it is over, also where its time is up and the scheduler has not come round
// to it yet.
func (t *lease) err() error { return t.errAt(t.grant.client.clock.Now()) }

// errAt is err for somebody who has just looked at the clock.
func (t *lease) errAt(now time.Duration) error {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	return t.overAt(now)
}

// overAt is errAt with the mutex of the hold held.
func (t *lease) overAt(now time.Duration) error {
	switch {
	case t.endCause != nil:
		return t.endCause
	case t.reachedLimit(now):
		return ErrHoldLimit
	case now >= t.grant.validUntil:
		return t.grant.expiredError("its time ran out")
	default:
		return nil
	}
}

// expiry is its end by local time, as far as it is known now, or was when it ended: what the
// next who has the hold adds to it is not its own.
func (t *lease) expiry() time.Duration {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.endCause != nil {
		return t.endedValidUntil
	}
	return min(t.grant.validUntil, t.holdLimit())
}

// reachedLimit reports whether it has reached its hold limit, and was valid until then. The mutex
// of the hold is held.
func (t *lease) reachedLimit(now time.Duration) bool {
	limit := t.holdLimit()
	return now >= limit && limit <= t.grant.validUntil
}

// holdLimit is when its hold limit is reached.
func (t *lease) holdLimit() time.Duration {
	if t.lock.maxHold == 0 {
		return never
	}
	return addTime(t.grantedAt, t.lock.maxHold)
}
