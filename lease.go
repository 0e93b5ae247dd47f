package quorumlock

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
)

// Lease is the right to act as the holder of a lock. It lasts from its grant until Release, loss,
// Close, or MaxHold. It is safe for concurrent use.
//
// It must be released. A lease that is garbage collected without a Release is a leak. The client
// reports it, and releases it when its next renewal is due. Code that still uses its context keeps
// it from being collected.
type Lease struct {
	lease *lease.Lease
	// values is the context that acquired the lease. ctx is the context of the lease, made when
	// first asked for.
	values  context.Context
	ctx     atomic.Pointer[leaseContext]
	cleanup runtime.Cleanup
	state   atomic.Int32
	// nested is set if the context held the lock already.
	nested bool
}

// The states of a handle.
const (
	// handleOpen: the handle has not been released.
	handleOpen int32 = iota
	// handleReleased: it was released while the lease was valid.
	handleReleased
	// handleOver: it was released when the lease was over.
	handleOver
)

// newLease makes a handle on a lease. Its context ends with the lease and has the values of ctx.
func newLease(ctx context.Context, t *lease.Lease) *Lease {
	l := &Lease{lease: t, values: ctx}
	// Leak only marks the lease, as the goroutine that runs cleanups must not block. The scheduler
	// does the rest when the grant is due.
	l.cleanup = runtime.AddCleanup(l, (*lease.Lease).Leak, t)
	return l
}

// Context returns a context that ends when the lease does, by local time, with the reason as its
// cause: see [context.Cause] and [Lease.Err]. The network cannot delay that. A lease and the leases
// nested in it end together: when the last of them is released, or the lock is lost. The context has
// the values of the context that acquired the lease, but not its deadline. Acquire treats the lock as
// already held if it gets this context. Permits are the exception: they are never nested.
func (l *Lease) Context() context.Context {
	if l.lease == nil {
		return endedContext(l.Err())
	}
	over := l.lease.Context()
	if l.ctx.Load() == nil {
		l.ctx.CompareAndSwap(nil, &leaseContext{Context: over, values: l.values, lease: l})
	}
	return l.ctx.Load()
}

func endedContext(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// Names returns the names of the lock, sorted. A lease of permits has one name, the semaphore's.
func (l *Lease) Names() []string {
	if l.lease == nil {
		return nil
	}
	return namesOf(l.lease.Spec())
}

// Owner returns the id under which nodes know this lease. An id is never used again, except that a
// lease that is handed over within the client keeps its id.
func (l *Lease) Owner() string {
	if l.lease == nil {
		return ""
	}
	return l.lease.Grant().Owner()
}

// Token returns the fencing token: a number that is larger for every later lease of any of the
// names. This holds for every owner, whatever memory nodes have lost, and however wrong the clocks
// of clients are. It requires that the clocks of nodes do not go back.
//
// A resource that remembers the largest token, and refuses smaller ones, is safe from a paused
// holder whose lease is over. Package fence helps with that. A token fits in 63 bits and is never
// 0. Nested leases share it. Readers may have the token of an earlier writer, or of each other: see
// [RWLock.Read]. Permits have the token of their slots: see [Lease.Slots].
func (l *Lease) Token() uint64 {
	if l.lease == nil {
		return 0
	}
	return l.lease.Token()
}

// ValidUntil returns the end of the lease by the wall clock, for display, as nodes have confirmed
// it so far. Each renewal moves it, and a release ends it. To decide, use Remaining or Context,
// which no step of the wall clock can move.
func (l *Lease) ValidUntil() time.Time {
	if l.lease == nil {
		return time.Time{}
	}
	c := l.lease.Engine().Clock
	return c.Wall().Add(l.lease.Expiry() - c.Now())
}

// Remaining returns how long the lease is certainly still valid. Its TTL counts from before the last
// confirmed command was sent, less an allowance for clock drift. MaxHold may end it earlier. It is 0
// when the lease has ended.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(l.lease.Expiry()-l.lease.Engine().Clock.Now(), 0)
}

// Backing returns how many nodes back the lease now, and how many nodes there are. Each renewal
// asks all nodes, so have returns to want when failed nodes do. If have is below the need of the
// rule, the lease is about to end.
func (l *Lease) Backing() (have, want int) {
	if l.lease == nil {
		return 0, 0
	}
	have, want = l.lease.Backing()
	if l.state.Load() != handleOpen {
		return 0, want
	}
	return have, want
}

// Err returns nil while the lease is valid. After that it returns a [*LostError], ErrReleased,
// ErrHoldLimit or ErrClosed. It is exact: it reads the clock.
func (l *Lease) Err() error {
	switch {
	case l.lease == nil:
		return invalid(zeroValue)
	case l.state.Load() == handleReleased:
		return ErrReleased
	default:
		return l.lease.Err()
	}
}

// Extend renews the lease on every node now, in addition to its automatic renewals: the lease then
// lasts a TTL from now. Use it to prolong a Fixed lease.
//
// It fails with a [*NoQuorumError] if too few nodes confirm; the lease is then valid as long as it
// was before. If the lease has ended, Extend returns the reason, as nothing revives a lease. If ctx
// ends meanwhile, it returns ctx's error, and the renewal goes on. If ctx has ended before the call,
// nothing is sent.
func (l *Lease) Extend(ctx context.Context) error {
	return l.startAndWait(ctx, (*lease.Lease).Extend)
}

// ExtendFor is Extend with another TTL: the lease lasts ttl from now, or as long as before if that
// is longer. ttl is from 10 ms to Config.MaxTTL. The lock must be Fixed: other leases are renewed
// for the TTL of the lock all the time.
func (l *Lease) ExtendFor(ctx context.Context, ttl time.Duration) error {
	if l.lease == nil {
		return l.Err()
	}
	ttl = wholeTTL(ttl)
	var problem string
	switch longest := l.lease.Engine().Limits.MaxTTL; {
	case !l.lease.Spec().Fixed:
		problem = "ExtendFor needs a Fixed lock: other leases are renewed automatically"
	case ttl < minTTL:
		problem = fmt.Sprintf("ExtendFor %v is under %v", ttl, minTTL)
	case ttl > longest:
		problem = fmt.Sprintf("ExtendFor %v is over MaxTTL %v", ttl, longest)
	}
	if problem != "" {
		return invalid(problem)
	}
	return l.startAndWait(ctx, func(t *lease.Lease, done chan<- error) error { return t.ExtendFor(ttl, done) })
}

// startAndWait starts a renewal, and waits for its outcome.
func (l *Lease) startAndWait(ctx context.Context, start func(*lease.Lease, chan<- error) error) error {
	if ctx == nil {
		return invalid(nilContext)
	}
	if err := l.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return lease.ContextError(ctx)
	}
	done := make(chan error, 1)
	if err := start(l.lease, done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-l.lease.Context().Done():
		return l.lease.Err()
	case <-ctx.Done():
		return lease.ContextError(ctx)
	}
}

// Release releases the lock on every node. It returns once enough nodes have confirmed for others
// to acquire the lock. It is sent even if its context has ended, or is nil, and the end of the context does not end
// the wait: the timeout of each node bounds that. While leases that are nested in this one are held, it returns nil
// at once, and the release of the last of them frees the lock.
//
// It returns nil once confirmed. It returns nil at once for a nested lease, unless that is the last one
// to be released, and for a hand-over to the next waiter of this client. A [*NoQuorumError] names the
// nodes that did not confirm. The library retries them in the background, and they free the lock when
// its TTL is over. If the lease had ended before, the error says how: [*LostError], ErrReleased for a
// second Release, ErrHoldLimit, ErrClosed. Release may be called at any time, from any goroutine, and
// any number of times.
//
// It also returns a [*LostError] if the lease was still valid by local time, but too few nodes had
// it for its rule: names were deleted by hand or by force, overwritten, evicted, or taken. Then
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
//
// With [LockOptions].MinHold, a release before its end ends the lease, but the nodes keep the lock
// for the rest, even if this process ends. Close does not remove the lock either. No node tells the next
// waiter when the rest is over: a waiter looks once a second, and so knows it. A [*NoQuorumError] then says that
// too few nodes were told, so the lock may stay taken until its TTL is over. See [Lease.WaiveMinHold].
func (l *Lease) Release(context.Context) error { return l.release() }

// Detach ends the lease without a release, and returns its owner id: the nodes keep the lock until its TTL is over. So
// no other client acquires the lock before that, even after Close or the end of this process. Use it where work
// goes on that this process does not stop, or for a cool-down. To free the lock earlier, pass the owner id to
// [Lock.ReleaseOwner], in any process.
//
// Detach asks no node. It fails if the lease had ended before, and returns why. A nested lease is only released. While
// leases that are nested in this one are held, the lease goes on, and the release of the last of them detaches it.
func (l *Lease) Detach() (owner string, err error) {
	if l.isFirstHandle() {
		l.lease.Detach()
	}
	return l.Owner(), l.release()
}

func (l *Lease) release() error {
	r, err := l.beginRelease()
	if r == nil {
		return err
	}
	return r.Wait()
}

// beginRelease releases the handle without waiting. If nodes have to confirm it, beginRelease
// returns the round that counts them. Otherwise it returns the result of Release.
func (l *Lease) beginRelease() (*lease.Release, error) {
	if l.lease == nil {
		return nil, l.Err()
	}
	now := l.lease.Engine().Clock.Now()
	before := l.lease.ErrAt(now)
	state := handleReleased
	if before != nil {
		state = handleOver
	}
	if !l.state.CompareAndSwap(handleOpen, state) {
		return nil, l.Err()
	}
	l.cleanup.Stop()
	return l.lease.BeginRelease(now, before)
}

// WaiveMinHold makes Release ignore the [LockOptions].MinHold and free the lock at once. Call it
// before Release if the work did not begin, so that another process can do it. It has no effect on a
// lease that has ended, nor on a nested lease: the lease that it is nested in keeps its MinHold.
func (l *Lease) WaiveMinHold() {
	if l.isFirstHandle() {
		l.lease.WaiveMinHold()
	}
}

// isFirstHandle reports whether the handle is open, and not nested in another.
func (l *Lease) isFirstHandle() bool {
	return l.lease != nil && !l.nested && l.state.Load() == handleOpen
}
