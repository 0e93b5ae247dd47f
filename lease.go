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
	tenure *tenure
	// values is the context that acquired it, ctx its own, once somebody has asked for it;
	// guarded by the hold's mutex.
	values  context.Context
	ctx     *leaseContext
	cleanup runtime.Cleanup
	// over is why this handle has ended; guarded by the hold's mutex.
	over error
}

// newLease makes a handle on a tenure. Its context ends with that and has the values of
// ctx.
func newLease(ctx context.Context, t *tenure) *Lease {
	l := &Lease{tenure: t, values: ctx}
	l.cleanup = runtime.AddCleanup(l, leak, t)
	return l
}

// leak is run for a handle that was collected without a Release. It leaves the rest to
// the next tick of the hold: the goroutine that runs cleanups must not be held up.
func leak(t *tenure) {
	last := t.dropHandle()
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	t.leaked = last
}

// Context ends when the lease does, by local time and whatever the network does, with
// the reason as its cause: see [context.Cause] and [Lease.Err]. Of nested leases, which
// share one hold of the lock, it ends with the last. It has the values of the context
// that acquired the lease, and not its deadline. Passed to Acquire, it says that the
// lock is held already.
func (l *Lease) Context() context.Context {
	over := l.tenure.context()
	l.tenure.hold.mu.Lock()
	defer l.tenure.hold.mu.Unlock()
	if l.ctx == nil {
		l.ctx = &leaseContext{Context: over, values: l.values, lease: l}
	}
	return l.ctx
}

// Names are the names of the lock, sorted; of permits, the name of their semaphore.
func (l *Lease) Names() []string { return l.tenure.lock.Names() }

// Owner is the id under which nodes know this lease. It was never used before, and will
// never be again, but for leases that are handed over within the client: they keep it.
func (l *Lease) Owner() string { return l.tenure.hold.owner }

// Token is the fencing token: a number that is larger for every later lease of any of
// the names, whoever gets it, whatever nodes have lost, and however wrong the clocks of
// clients are; the clocks of nodes must not go back. A resource that remembers the largest token that it has seen, and
// refuses smaller ones, is safe from a holder that was paused and does not know that its
// lease is over; package fence helps with that. It fits in 63 bits and is never 0.
// Nested leases share it, and readers may have that of a writer before them, or of each
// other: see [RWLock.Read]. Of permits, it is that of their slots: see [Lease.Slots].
func (l *Lease) Token() uint64 { return l.tenure.token }

// ValidUntil is the end of the lease as far as nodes have confirmed it: by the wall
// clock, for display, as of now. It moves with each renewal. To decide, use Remaining
// or Context, which no step of the wall clock can move.
func (l *Lease) ValidUntil() time.Time {
	c := l.tenure.hold.client.clock
	return c.Wall().Add(l.tenure.lasts() - c.Now())
}

// Remaining is how long the lease is certainly still valid: what is left of its TTL
// after the time spent acquiring it, and clock drift, or of its MaxHold. It is 0 when the lease has ended.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(l.tenure.lasts()-l.tenure.hold.client.clock.Now(), 0)
}

// Backing is how many nodes back the lease now, and how many there are. Each renewal
// asks all nodes, also those that were down before, so have returns to want when they
// do. Below the need of the rule the lease is about to end.
func (l *Lease) Backing() (have, want int) {
	h := l.tenure.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.client.clock.Now()
	if l.over != nil || l.tenure.overAt(now) != nil {
		return 0, h.claims.Nodes()
	}
	return h.claims.Backing(now), h.claims.Nodes()
}

// Err is nil while the lease is valid. Then it is [*LostError], ErrReleased,
// ErrHoldLimit, ErrLeaked or ErrClosed. It is exact: it looks at the clock.
func (l *Lease) Err() error {
	l.tenure.hold.mu.Lock()
	over := l.over
	l.tenure.hold.mu.Unlock()
	return cmp.Or(over, l.tenure.err())
}

// Extend renews the lease on every node now, besides the renewals that it makes by
// itself: it lasts a TTL from now. It is the way to prolong a Fixed lease.
//
// It fails with a [*NoQuorumError] if too few nodes confirm it, and the lease is then
// valid as long as it was; with the reason of the end if the lease has ended, as
// nothing revives it; or with ctx's error, while the renewal goes on.
func (l *Lease) Extend(ctx context.Context) error {
	return l.renewing(ctx, (*tenure).extend)
}

// renewing starts a renewal, and waits for what comes of it.
func (l *Lease) renewing(ctx context.Context, start func(*tenure, chan error) error) error {
	if ctx == nil {
		return errNilContext
	}
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return whyDone(ctx)
	}
	done := make(chan error, 1)
	if err := start(l.tenure, done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-l.tenure.context().Done():
		return l.tenure.err()
	case <-ctx.Done():
		return whyDone(ctx)
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
func (l *Lease) beginRelease() (*releasing, error) {
	t := l.tenure
	now := t.hold.client.clock.Now()
	before := t.errAt(now)
	if !l.finish(before) {
		return nil, l.Err()
	}
	l.cleanup.Stop()
	if !t.dropHandle() {
		return nil, before
	}
	if before == nil && t.handOver() {
		return nil, nil //nolint:nilnil // nothing to wait for, and no error
	}
	r := newReleasing(t)
	if !t.hold.endTo(now, ErrReleased, r) {
		return nil, t.errAt(now)
	}
	if err := t.errAt(now); !errors.Is(err, ErrReleased) {
		return nil, err // its time had run out
	}
	return r, nil
}

// finish ends this handle, and reports whether it had not ended yet. before is why the
// lease was over by then, if it was.
func (l *Lease) finish(before error) bool {
	l.tenure.hold.mu.Lock()
	defer l.tenure.hold.mu.Unlock()
	if l.over != nil {
		return false
	}
	l.over = cmp.Or(before, ErrReleased)
	return true
}

// extend starts a renewal whose outcome goes to done.
func (t *tenure) extend(done chan error) error {
	h := t.hold
	h.mu.Lock()
	now := h.client.clock.Now()
	if t.overAt(now) != nil {
		h.mu.Unlock()
		return t.err()
	}
	h.renew(now, done)
	h.mu.Unlock()
	return nil
}
