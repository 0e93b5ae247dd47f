package lease

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// keeping is the rest of a MinHold: the lease of a grant has ended, and the nodes still keep the grant, without a holder. The mutex of the grant guards it.
type keeping struct {
	// until is when the rest has passed, and the grant is released.
	until time.Duration
	// lapsed is set once the nodes may have dropped the grant before that. Nothing renews it then.
	lapsed bool
	// outcome is the result of Release: nil once the nodes keep the grant for the rest by themselves,
	// and otherwise why they may not.
	outcome outcome
}

// outcome is a result that is set once. Any number of callers may wait for it.
type outcome struct {
	done chan struct{}
	err  error // read it only once done is closed
}

// wait blocks until the result is known, and returns it.
func (o *outcome) wait() error {
	<-o.done
	return o.err
}

// kept returns the state of a grant whose lease has ended before its MinHold, or nil. Requires g.mu and a lease.
func (g *Grant) kept() *keeping {
	if g.lease.extra == nil {
		return nil
	}
	return g.lease.extra.kept
}

// settle sets the result of Release, unless there was one before. Requires the mutex of the grant.
func (k *keeping) settle(err error) {
	if k == nil || k.isSettled() {
		return
	}
	k.outcome.err = err
	close(k.outcome.done)
}

// isSettled reports whether Release has its result.
func (k *keeping) isSettled() bool {
	select {
	case <-k.outcome.done:
		return true
	default:
		return false
	}
}

// nextDue returns when the scheduler must look at the grant, besides for a renewal.
func (k *keeping) nextDue(validUntil time.Duration) time.Duration {
	if k.lapsed {
		return k.until
	}
	return min(k.until, validUntil)
}

// minHoldEnd returns when the MinHold of the lease has passed. Requires l.grant.mu.
func (l *Lease) minHoldEnd() time.Duration {
	if l.extra != nil && l.extra.minHoldWaived {
		return l.grantedAt
	}
	return AddTime(l.grantedAt, l.spec.MinHold)
}

// WaiveMinHold makes the release of the lease ignore its MinHold: the caller never worked under it.
func (l *Lease) WaiveMinHold() {
	l.grant.mu.Lock()
	defer l.grant.mu.Unlock()
	if l.endCause == nil { // otherwise it is too late, and extra may be read without the mutex
		l.needExtra().minHoldWaived = true
	}
}

// mustKeep reports whether the nodes must keep the grant although its lease ends now with this
// cause. A lost lease has nothing to keep. Requires g.mu.
func (g *Grant) mustKeep(now time.Duration, cause error) bool {
	end := g.lease.minHoldEnd()
	if k := g.kept(); k != nil {
		end = k.until
	}
	return now < end && !errors.Is(cause, ErrLost)
}

// keep makes the nodes keep the grant for the rest of its MinHold, even if this process dies. Their
// claims may last that long already, and are shortened. Otherwise one renewal sets them to the rest.
// The scheduler releases the grant when the rest has passed. keep reports false if the scheduler is
// stopped: the claims then end by themselves. Requires g.mu and stateHeld.
func (g *Grant) keep(now time.Duration, r *Release) (scheduled bool) {
	k := g.kept()
	if k == nil {
		k = &keeping{until: g.lease.minHoldEnd(), outcome: outcome{done: make(chan struct{})}}
		g.lease.needExtra().kept = k
		g.nextRenewalAt, g.failedRenewals = Never, 0
		g.spec.keepSlots()
		// Nothing renews a kept grant, so this client would not notice a forced release. Its waiters ask the
		// nodes instead. Their attempts must not overtake the operations below.
		defer g.engine.locals.OnReleased(g)
	}
	if r != nil {
		r.kept = &k.outcome
	}
	if g.validUntil >= k.until {
		k.settle(nil)
		g.shorten()
	} else if now < g.validUntil {
		g.renew(now, nil)
	}
	return g.engine.scheduler.schedule(g, g.nextDue())
}

// shorten sets the claims to the rest of the MinHold: they end by themselves if this process dies. A
// node that does not get it keeps the grant for its TTL. Requires g.mu.
func (g *Grant) shorten() {
	calls := dispatch.NewCalls(g.engine.Nodes.Len(), node.Op{
		Kind: node.Shorten, Names: g.spec.Names, Owner: g.owner, TTL: g.renewalTTL(), Limits: g.engine.Limits,
	})
	for i := range g.engine.Nodes.Len() {
		calls.To(i).To = dispatch.Ignore
	}
	g.engine.Nodes.Send(calls, g.exposedNodes(), func(int, error) bool { return true })
}

// reasonToEndKept is reasonToEnd for a kept grant, whose lease has ended. Requires g.mu.
func (g *Grant) reasonToEndKept(now, takes time.Duration) error {
	k := g.kept()
	if now >= k.until {
		return ErrReleased
	}
	if now >= g.validUntil {
		k.lapsed, g.nextRenewalAt = true, Never
		backing := g.claims.Backing(now)
		k.settle(g.engine.Errors.NoQuorum(Shortage{
			Op: opKeep, Spec: g.spec, Need: g.spec.Need, Agreed: backing, Total: g.claims.Nodes(), Nodes: g.nodeErrors(),
		}))
	}
	if !g.renewIfDue(now, takes) {
		return ErrClosed
	}
	return nil
}

// opKeep names the operation in the errors of a release that must keep a grant.
const opKeep = "keep"

// renewalTTL returns the TTL of a renewal: of the lock, or the rest of its MinHold. Requires g.mu.
func (g *Grant) renewalTTL() time.Duration {
	k := g.kept()
	if k == nil {
		return g.spec.TTL
	}
	return quorum.TTLFor(k.until - g.engine.Clock.Now())
}

// finishKept acts on a round of a kept grant that is won or lost. It returns an error if the nodes
// no longer have the grant. Requires r.grant.mu.
func (r *renewalRound) finishKept(now time.Duration) (over error) {
	g := r.grant
	switch {
	case r.tally.Result() == quorum.Won:
		if g.validUntil >= g.kept().until { // a renewal that was sent before the release may not suffice
			g.failedRenewals, g.nextRenewalAt = 0, Never
			g.kept().settle(nil)
		}
		g.engine.scheduler.schedule(g, g.nextDue())
		r.reportResult(nil)
		return nil
	case r.evicted() != nil:
		return r.evicted()
	}
	err := g.engine.Errors.NoQuorum(g.shortage(opKeep, &r.tally))
	if !r.keeps {
		r.reportResult(err) // the renewal that keep has sent since, if one was needed, decides
		return nil
	}
	g.kept().settle(err)
	g.retryRenewal(now)
	r.reportResult(err)
	return nil
}
