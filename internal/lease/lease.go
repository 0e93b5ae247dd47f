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

// Detach makes the release of the lease tell the nodes nothing: they keep the lock until its TTL is over.
func (l *Lease) Detach() { l.prepareEnd(func(x *extra) { x.detached = true }) }

// WaiveMinHold makes the release of the lease ignore its MinHold: the caller never worked under it.
func (l *Lease) WaiveMinHold() { l.prepareEnd(func(x *extra) { x.minHoldWaived = true }) }

func (l *Lease) prepareEnd(set func(*extra)) {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.endCause == nil { // otherwise it is too late, and extra may be read without the mutex
		set(l.needExtra())
	}
}

// restOfMinHold returns how long the nodes must keep the lock from now on. It is not positive if they need not.
// Requires l.grant.mu.
func (l *Lease) restOfMinHold(now time.Duration) time.Duration {
	if l.extra != nil && l.extra.minHoldWaived {
		return 0
	}
	return decision.After(l.grantedAt, l.spec.MinHold) - now
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
		return decision.Never
	}
	return decision.After(l.grantedAt, l.spec.MaxHold)
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
