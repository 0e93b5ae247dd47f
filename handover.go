package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// maxBlockAhead bounds how far a reserved token block may run ahead of the clock. The next
// contender's proposal is the time, which must still be larger.
const maxBlockAhead = 10 * time.Millisecond

// blockSize returns how many tokens an acquisition reserves beyond its own, for hand-overs. It is 0
// if hand-over is off.
func (l *Lock) blockSize(token uint64) uint64 {
	c := l.client
	if !l.spec.HandOver {
		return 0
	}
	ahead := min(maxBlockAhead, c.cfg.MaxClockSkew/4)
	return quorum.Block(c.clock.Wall().Add(ahead).UnixMicro(), token, c.cfg.Handover.MaxCount)
}

// handOver ends a lease by giving its grant to the next waiter of this client. It sends nothing, as
// the grant stays the same on all nodes. It reports whether a waiter took over.
func (t *lease) handOver() bool {
	g := t.grant
	g.mu.Lock()
	if g.lease.token >= g.proposal.End() {
		g.mu.Unlock()
		return false // most grants have no further token
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

// mayHandOver reports whether the grant may go to another holder: within the bounds of
// Config.Handover, and with more than half of the TTL left. Requires g.mu.
func (g *grant) mayHandOver(now time.Duration) bool {
	most := g.client.cfg.Handover.MaxTime
	return g.state == stateHeld &&
		now-g.grantedAt < most && g.validUntil-now > g.spec.TTL/2
}
