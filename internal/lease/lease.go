package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
)

// Lease is one holder's period within a grant. Nested handles share it. Most grants have one lease.
// A hand-over ends the lease and starts another in the same grant. It is safe for concurrent use.
type Lease struct {
	grant *Grant
	// spec is the spec of the holder. It has the names of the grant.
	spec      *Spec
	token     uint64
	grantedAt time.Duration

	// grant.mu guards the fields below.

	// ctx ends with the lease. It is nil until a caller asks for it: most leases end before that.
	ctx *endContext
	// handles counts the open handles. leaked is set when the last of them was collected without a
	// Release. endCause is why the lease has ended, and endedValidUntil when, or the end that nodes had
	// confirmed before it was lost.
	handles         int32
	leaked          bool
	endCause        error
	endedValidUntil time.Duration

	// extra has what few leases need. It is nil for most.
	extra *extra
}

// extra is the state of a lease that few leases need.
type extra struct {
	// dependents lists what ends with this lease.
	dependents dependents
	// minHoldWaived is set if a release ignores the MinHold, detached if the nodes are told nothing.
	minHoldWaived, detached bool
	// forced are the nodes that have sent a message of a forced release.
	forced decision.Set
}

// needExtra returns the extra state of the lease, and allocates it if necessary. Requires l.grant.mu.
func (l *Lease) needExtra() *extra {
	if l.extra == nil {
		l.extra = &extra{}
	}
	return l.extra
}

// endContext is a context with the function that ends it.
type endContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// Grant returns the grant of the lease.
func (l *Lease) Grant() *Grant { return l.grant }

// Spec returns the spec of the holder.
func (l *Lease) Spec() *Spec { return l.spec }

// Token returns the fencing token.
func (l *Lease) Token() uint64 { return l.token }

// GrantedAt returns when the lease began.
func (l *Lease) GrantedAt() time.Duration { return l.grantedAt }

// Engine returns the engine that keeps the lease.
func (l *Lease) Engine() *Engine { return l.grant.engine }

// start begins a lease with a single handle. Requires g.mu.
func (l *Lease) start(g *Grant, s *Spec, token uint64, now time.Duration) {
	l.grant, l.spec, l.token, l.grantedAt, l.handles = g, s, token, now, 1
	g.lease = l
}

// Context returns a context that ends with the lease.
func (l *Lease) Context() context.Context {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		l.ctx = &endContext{ctx, cancel}
	}
	if over := l.overAt(l.grant.engine.Clock.Now()); over != nil {
		l.ctx.cancel(over)
	}
	return l.ctx.Context
}

// Extend starts a renewal, and sends its outcome to done, which must have room for it. If the lease
// is over, it returns why.
func (l *Lease) Extend(done chan<- error) error {
	return l.extend(func(g *Grant, now time.Duration) { g.renew(now, done) })
}

// ExtendFor is Extend with another TTL, which is at most the MaxTTL of the nodes. The lease must be
// Fixed.
func (l *Lease) ExtendFor(ttl time.Duration, done chan<- error) error {
	return l.extend(func(g *Grant, now time.Duration) { g.renewFor(now, ttl, done) })
}

// extend starts a renewal with start, unless the lease is over.
func (l *Lease) extend(start func(g *Grant, now time.Duration)) error {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	if over := l.overAt(now); over != nil {
		return over
	}
	start(g, now)
	return nil
}

// Downgrade starts the renewal that turns the writer's claims into a reader's on all nodes, and
// sends its outcome to done, which has room for it. From now on, this client's other writers must ask the nodes: only
// there do new readers notice waiting writers.
func (l *Lease) Downgrade(done chan<- error) error {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	switch over := l.overAt(now); {
	case over != nil:
		return over
	case g.spec.Reads:
		done <- nil
		return nil
	case !g.reads && l.handles > 1:
		return ErrShared
	}
	g.reads = true
	g.renew(now, done)
	g.engine.locals.OnReleased(g)
	return nil
}

// Reads reports whether the lease is a reader's.
func (l *Lease) Reads() bool {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.grant.reads
}

// Backing returns how many of the nodes back the lease, and how many nodes there are.
func (l *Lease) Backing() (have, want int) {
	g := l.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	if l.overAt(now) != nil {
		return 0, g.claims.Nodes()
	}
	return g.claims.Backing(now), g.claims.Nodes()
}

// BeginRelease gives back a handle without waiting. before is why the lease had ended at now, or
// nil. If nodes have to confirm the release, BeginRelease returns the round that counts them, and
// otherwise the result of the release.
func (l *Lease) BeginRelease(now time.Duration, before error) (*Release, error) {
	l.grant.mu.Lock()
	over, r, err := l.releaseLocked(now, before)
	l.grant.mu.Unlock()
	if over {
		l.releaseDependents()
	}
	return r, err
}

// releaseLocked is BeginRelease without the releases of joint leases, which the caller begins after it unlocks l.grant.mu
// if this call ended the lease. Requires l.grant.mu.
func (l *Lease) releaseLocked(now time.Duration, before error) (over bool, r *Release, err error) {
	if l.handles--; l.handles != 0 {
		return false, nil, before
	}
	if before == nil && l.passLocked() {
		return true, nil, nil
	}
	r = newRelease(l)
	switch over = l.grant.endLocked(now, ErrReleased, r); {
	case !over:
		return false, nil, l.overAt(now)
	case !errors.Is(l.endCause, ErrReleased):
		return true, nil, l.endCause // its time was over first
	case l.isDetached():
		return true, nil, nil
	}
	return true, r, nil
}

// Detach makes the release of the lease tell the nodes nothing: they keep the lock until its TTL is over.
func (l *Lease) Detach() {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.endCause == nil { // otherwise it is too late, and extra may be read without the mutex
		l.needExtra().detached = true
	}
}

// WaiveMinHold makes the release of the lease ignore its MinHold: the caller never worked under it.
func (l *Lease) WaiveMinHold() {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.endCause == nil { // otherwise it is too late, and extra may be read without the mutex
		l.needExtra().minHoldWaived = true
	}
}

// restOfMinHold returns how long the nodes must keep the lock from now on. It is not positive if they need not.
// Requires l.grant.mu.
func (l *Lease) restOfMinHold(now time.Duration) time.Duration {
	if l.extra != nil && l.extra.minHoldWaived {
		return 0
	}
	return AddTime(l.grantedAt, l.spec.MinHold) - now
}

// isDetached reports whether Detach was called. Requires l.grant.mu, unless the lease has ended.
func (l *Lease) isDetached() bool { return l.extra != nil && l.extra.detached }

// Leak marks the lease for the scheduler, if its last handle was collected without a release.
func (l *Lease) Leak() {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	l.handles--
	l.leaked = l.handles == 0
}

// passLocked ends the lease by giving its grant to the next waiter of this client. It sends nothing, as the grant stays
// the same on all nodes. It reports whether a waiter took over. Requires l.grant.mu.
func (l *Lease) passLocked() bool {
	g := l.grant
	if g.lease.token >= g.endOfTokens() {
		return false // most grants have no further token
	}
	now := g.engine.Clock.Now()
	passed := g.lease == l && !l.isDetached() && g.mayHandOver(now) && g.engine.locals.HandOver(g, func(s *Spec) *Lease {
		l.end(now, ErrReleased)
		g.engine.Events.Ended(l, now-l.grantedAt, true, ErrReleased)
		next := &Lease{}
		if l.extra != nil && l.extra.forced != 0 { // the messages are about the owner, which stays
			next.extra = &extra{forced: l.extra.forced}
		}
		next.start(g, s, l.token+1, now)
		return next
	})
	if passed && l.holdLimit() != g.lease.holdLimit() {
		g.engine.scheduler.schedule(g, g.nextDue())
	}
	return passed
}

// mayHandOver reports whether the grant may go to another holder: within the bounds of the
// configuration, and with more than half of the TTL left. Requires g.mu.
func (g *Grant) mayHandOver(now time.Duration) bool {
	return g.state == stateHeld && now-g.GrantedAt() < g.engine.HandoverTime && g.validUntil-now > g.spec.TTL/2
}

// end marks the lease as ended and cancels its context. Requires l.grant.mu.
func (l *Lease) end(now time.Duration, cause error) {
	l.endCause, l.endedValidUntil = cause, min(l.grant.validUntil, l.holdLimit())
	if !errors.Is(cause, ErrLost) { // after a loss, the nodes may still keep the names for that long
		l.endedValidUntil = min(l.endedValidUntil, now)
	}
	if l.ctx != nil {
		l.ctx.cancel(cause)
	}
	l.markDependents(cause)
}

// AddHandle counts one handle more, for a reader or a writer. No writer may share a reader's lease; then isReader
// is set. Otherwise ok is false if the lease is over.
func (l *Lease) AddHandle(reads bool) (ok, isReader bool) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	switch {
	case !reads && l.grant.reads:
		return false, true
	case l.overAt(l.grant.engine.Clock.Now()) != nil || l.handles == 0:
		return false, false
	}
	l.handles++
	return true, false
}

// Err returns why the lease is over, or nil. It reads the clock: the scheduler may not have ended
// the lease yet.
func (l *Lease) Err() error { return l.ErrAt(l.grant.engine.Clock.Now()) }

// ErrAt is Err for a caller that has just read the clock.
func (l *Lease) ErrAt(now time.Duration) error {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	return l.overAt(now)
}

// overAt is ErrAt for a caller that holds the mutex. Requires l.grant.mu.
func (l *Lease) overAt(now time.Duration) error {
	switch {
	case l.endCause != nil:
		return l.endCause
	case l.reachedLimit(now):
		return ErrHoldLimit
	case now >= l.grant.validUntil:
		return l.grant.expired("it expired")
	default:
		return nil
	}
}

// Expiry returns when this lease ends by local time. The value is frozen once the lease has ended:
// renewals by a later holder of the same grant do not count. For a lost lease it may be in the future.
func (l *Lease) Expiry() time.Duration {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.endCause != nil {
		return l.endedValidUntil
	}
	return min(l.grant.validUntil, l.holdLimit())
}

// reachedLimit reports whether the lease has reached its hold limit, and was valid until then.
// Requires l.grant.mu.
func (l *Lease) reachedLimit(now time.Duration) bool {
	limit := l.holdLimit()
	return now >= limit && limit <= l.grant.validUntil
}

// holdLimit returns when the lease reaches its hold limit, or Never.
func (l *Lease) holdLimit() time.Duration {
	if l.spec.MaxHold == 0 {
		return Never
	}
	return AddTime(l.grantedAt, l.spec.MaxHold)
}

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
