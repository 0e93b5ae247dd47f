package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// maxBlockAhead is how far ahead of this client's clock the tokens are at most that it reserves
// to hand a lease over: who comes next proposes the time, or more.
const maxBlockAhead = 10 * time.Millisecond

// blockSize is how many tokens behind its own an acquisition asks for: none if nobody of this
// client waits behind, or nothing may be handed over.
func (l *Lock) blockSize(token uint64) uint64 {
	c := l.client
	if !l.mayHandOver {
		return 0
	}
	ahead := min(maxBlockAhead, c.cfg.MaxClockSkew/4)
	return quorum.Block(c.clock.Wall().Add(ahead).UnixMicro(), token, c.cfg.Handover.MaxCount)
}

// handOver ends a tenure by giving the hold to the next waiter of this client. Nothing is
// sent, so nothing may have been sent that ends the hold: it is still the same on all nodes.
func (t *lease) handOver() bool {
	g := t.grant
	g.mu.Lock()
	if g.lease.token >= g.proposal.End() {
		g.mu.Unlock()
		return false // most holds have no other token
	}
	now := g.client.clock.Now()
	passed := g.lease == t && g.mayHandOver(now) && g.client.queues.handOver(g, func(l *Lock) *lease {
		t.end(ErrReleased)
		g.reportEnd(t, ErrReleased, now-t.grantedAt, true)
		next := &lease{}
		next.start(g, l, t.token+1, now)
		return next
	})
	if passed && t.holdLimit() != g.lease.holdLimit() {
		g.client.scheduler.schedule(g, g.nextDue())
	}
	g.mu.Unlock()
	return passed
}

// mayHandOver reports whether a hold may go to another holder as it is: within its bounds, and
// while it has a good part of its time left.
func (g *grant) mayHandOver(now time.Duration) bool {
	most := g.client.cfg.Handover.MaxTime
	return g.state == stateHeld &&
		now-g.grantedAt < most && g.validUntil-now > g.lock.ttl/2
}
