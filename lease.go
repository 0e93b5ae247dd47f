package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"
)

// Lease is the right to act as the holder of a lock. It lasts from its grant until Release, loss,
// Close, or MaxHold. It is safe for concurrent use.
//
// It must be released. A lease that is garbage collected without a Release is a leak. The client
// reports it, and releases it when its next renewal is due. Code that still uses its context keeps
// it from being collected.
type Lease struct {
	lease *lease
	// values is the context that acquired the lease. ctx is the context of the lease, made when
	// first asked for; guarded by grant.mu.
	values  context.Context
	ctx     *leaseContext
	cleanup runtime.Cleanup
	// ended is why this handle has ended; guarded by grant.mu.
	ended error
}

// newLease makes a handle on a lease. Its context ends with the lease and has the values of ctx.
func newLease(ctx context.Context, t *lease) *Lease {
	l := &Lease{lease: t, values: ctx}
	l.cleanup = runtime.AddCleanup(l, onLeak, t)
	return l
}

// onLeak runs for a handle that was collected without a Release. It only marks the lease, as the
// goroutine that runs cleanups must not block. The scheduler does the rest when the grant is due.
func onLeak(t *lease) {
	last := t.releaseHandle()
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	t.leaked = last
}

// Context returns a context that ends when the lease does, by local time, with the reason as its
// cause: see [context.Cause] and [Lease.Err]. The network cannot delay that. The contexts of nested
// leases end when the last of these leases does. The context has the values of the context that
// acquired the lease, but not its deadline. Acquire treats the lock as already held if it gets this
// context.
func (l *Lease) Context() context.Context {
	over := l.lease.context()
	l.lease.grant.mu.Lock()
	defer l.lease.grant.mu.Unlock()
	if l.ctx == nil {
		l.ctx = &leaseContext{Context: over, values: l.values, lease: l}
	}
	return l.ctx
}

// Names returns the names of the lock, sorted. A lease of permits has one name, the semaphore's.
func (l *Lease) Names() []string { return l.lease.lock.Names() }

// Owner returns the id under which nodes know this lease. An id is never used again, except that a
// lease handed over within the client keeps its id.
func (l *Lease) Owner() string { return l.lease.grant.owner }

// Token returns the fencing token: a number that is larger for every later lease of any of the
// names. This holds for every owner, whatever memory nodes have lost, and however wrong the clocks
// of clients are. It requires that the clocks of nodes do not go back.
//
// A resource that remembers the largest token, and refuses smaller ones, is safe from a paused
// holder whose lease is over. Package fence helps with that. A token fits in 63 bits and is never
// 0. Nested leases share it. Readers may have the token of an earlier writer, or of each other: see
// [RWLock.Read]. Permits have the token of their slots: see [Lease.Slots].
func (l *Lease) Token() uint64 { return l.lease.token }

// ValidUntil returns the end of the lease by the wall clock, for display, as nodes have confirmed
// it so far. Each renewal moves it. To decide, use Remaining or Context, which no step of the wall
// clock can move.
func (l *Lease) ValidUntil() time.Time {
	c := l.lease.grant.client.clock
	return c.Wall().Add(l.lease.expiry() - c.Now())
}

// Remaining returns how long the lease is certainly still valid. That is the rest of its TTL, less
// clock drift and the time spent acquiring it, or of its MaxHold. It is 0 when the lease has ended.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(l.lease.expiry()-l.lease.grant.client.clock.Now(), 0)
}

// Backing returns how many nodes back the lease now, and how many nodes there are. Each renewal
// asks all nodes, so have returns to want when failed nodes do. If have is below the need of the
// rule, the lease is about to end.
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

// Err returns nil while the lease is valid. After that it returns a [*LostError], ErrReleased,
// ErrHoldLimit, ErrLeaked or ErrClosed. It is exact: it reads the clock.
func (l *Lease) Err() error {
	l.lease.grant.mu.Lock()
	over := l.ended
	l.lease.grant.mu.Unlock()
	return cmp.Or(over, l.lease.err())
}

// Extend renews the lease on every node now, in addition to its automatic renewals: the lease then
// lasts a TTL from now. Use it to prolong a Fixed lease.
//
// It fails with a [*NoQuorumError] if too few nodes confirm; the lease is then valid as long as it
// was before. If the lease has ended, Extend returns the reason, as nothing revives a lease. If ctx
// ends, it returns ctx's error, and the renewal goes on.
func (l *Lease) Extend(ctx context.Context) error {
	return l.startAndWait(ctx, (*lease).extend)
}

// startAndWait starts a renewal, and waits for its outcome.
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

// Release releases the lock on every node. It returns once enough nodes have confirmed for others
// to acquire the lock. It is sent whatever the state of ctx, from which it takes values only; the
// timeout of each node bounds it.
//
// It returns nil once confirmed. It returns nil at once for a nested lease, and for a hand-over to
// the next waiter of this client. A [*NoQuorumError] names the nodes that did not confirm. The
// library retries them in the background, and they free the lock when its TTL is over. If the lease
// had ended before, the error says how: [*LostError], ErrReleased for a second Release,
// ErrHoldLimit, ErrClosed. Release may be called at any time, from any goroutine, and any number of
// times.
//
// It also returns a [*LostError] if the lease was still valid by local time, but too few nodes had
// it for its rule: names were deleted by hand or by force, evicted, or taken by another owner. Then
// another holder may have been at work at the same time. See [Hooks.LossFound]. The first answers
// of the nodes decide:
//
//   - A node that removed all names had the lease.
//   - A node that found a name missing did not have it, with three exceptions that prove nothing.
//     First, an answer after the end of the lease, as names expire then. Second, an answer to an
//     operation that may have run before. Third, the answer of a node that recovers from a loss of
//     its memory, as such a node has granted the lock to no other owner.
//   - A node that did not answer may have had it.
//
// Release returns at once when nodes that removed all names meet the need of the rule. If nodes
// found names missing, it waits until the other answers cannot change the outcome. The timeout of
// each node bounds its answer.
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

// beginRelease releases the handle without waiting. If nodes have to confirm it, beginRelease
// returns the round that counts them. Otherwise it returns the result of Release.
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
		return nil, err // its time was over first
	}
	return r, nil
}

// endHandle ends this handle, and reports whether it had not ended yet. If the lease itself was
// already over, before is the reason.
func (l *Lease) endHandle(before error) bool {
	l.lease.grant.mu.Lock()
	defer l.lease.grant.mu.Unlock()
	if l.ended != nil {
		return false
	}
	l.ended = cmp.Or(before, ErrReleased)
	return true
}

// lease is one holder's period within a grant. Nested Lease handles share it. Most grants have one
// lease. A hand-over ends the lease and starts another in the same grant.
type lease struct {
	grant *grant
	// lock is the lock that the holder asked for. It has the names of the grant.
	lock      *Lock
	token     uint64
	grantedAt time.Duration

	// grant.mu guards the fields below.

	// ctx ends with the lease. It is nil until a caller asks for it: most leases end before that.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// handles counts the open handles. leaked is set when the last of them was collected without a
	// Release. endCause is why the lease has ended, and endedValidUntil its end as known then.
	handles         int32
	leaked          bool
	endCause        error
	endedValidUntil time.Duration

	// jointLeases lists the joint leases that this lease is part of. It is nil if there is none.
	jointLeases *jointLeases
}

// start begins a lease with a single handle. Requires g.mu.
func (t *lease) start(g *grant, l *Lock, token uint64, now time.Duration) {
	t.grant, t.lock, t.token, t.grantedAt, t.handles = g, l, token, now, 1
	g.lease = t
}

// context returns a context that ends with the lease.
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

// extend starts a renewal, and sends its outcome to done.
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

// end marks the lease as ended and cancels its context. Requires t.grant.mu.
func (t *lease) end(cause error) {
	t.endCause, t.endedValidUntil = cause, min(t.grant.validUntil, t.holdLimit())
	if t.cancel != nil {
		t.cancel(cause)
	}
	t.jointLeases.markEnded(cause)
}

// releaseHandle counts one handle less, and reports whether none is left.
func (t *lease) releaseHandle() bool {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	t.handles--
	return t.handles == 0
}

// retainHandle counts one handle more. It reports false if the lease is over.
func (t *lease) retainHandle() bool {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.overAt(t.grant.client.clock.Now()) != nil || t.handles == 0 {
		return false
	}
	t.handles++
	return true
}

// err returns why the lease is over, or nil. It reads the clock: the scheduler may not have ended
// the lease yet.
func (t *lease) err() error { return t.errAt(t.grant.client.clock.Now()) }

// errAt is err for a caller that has just read the clock.
func (t *lease) errAt(now time.Duration) error {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	return t.overAt(now)
}

// overAt is errAt for a caller that holds the mutex. Requires t.grant.mu.
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

// expiry returns when this lease ends by local time. The value is frozen once the lease has ended:
// renewals by a later holder of the same grant do not count.
func (t *lease) expiry() time.Duration {
	t.grant.mu.Lock()
	defer t.grant.mu.Unlock()
	if t.endCause != nil {
		return t.endedValidUntil
	}
	return min(t.grant.validUntil, t.holdLimit())
}

// reachedLimit reports whether the lease has reached its hold limit, and was valid until then.
// Requires t.grant.mu.
func (t *lease) reachedLimit(now time.Duration) bool {
	limit := t.holdLimit()
	return now >= limit && limit <= t.grant.validUntil
}

// holdLimit returns when the lease reaches its hold limit, or never.
func (t *lease) holdLimit() time.Duration {
	if t.spec.MaxHold == 0 {
		return never
	}
	return addTime(t.grantedAt, t.spec.MaxHold)
}
