package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// blockTime is how far ahead of this client's clock the tokens are at most that it reserves
// to hand a lease over: who comes next proposes the time, or more.
const blockTime = 10 * time.Millisecond

// reserve is how many tokens behind its own an acquisition asks for: none if nobody of this
// client waits behind, or nothing may be handed over.
func (l *Lock) reserve(token uint64) uint64 {
	c := l.client
	if !l.handover {
		return 0
	}
	ahead := min(blockTime, c.cfg.MaxClockSkew/4)
	return quorum.Block(c.clock.Wall().Add(ahead).UnixMicro(), token, c.cfg.Handover.MaxCount)
}

// handOver ends a tenure by giving the hold to the next waiter of this client. Nothing is
// sent, so nothing may have been sent that ends the hold: it is still the same on all nodes.
func (t *tenure) handOver() bool {
	h := t.hold
	h.mu.Lock()
	if h.tenure.token >= h.proposal.End() {
		h.mu.Unlock()
		return false // most holds have no other token
	}
	now := h.client.clock.Now()
	passed := h.tenure == t && h.mayPass(now) && h.client.lines.pass(h, func(l *Lock) *tenure {
		t.end(ErrReleased)
		h.reportEnd(t, ErrReleased, now-t.grantedAt, true)
		next := &tenure{}
		next.begin(h, l, t.token+1, now)
		return next
	})
	if passed && t.limit() != h.tenure.limit() {
		h.client.schedule.set(h, h.nextDue())
	}
	h.mu.Unlock()
	return passed
}

// mayPass reports whether a hold may go to another holder as it is: within its bounds, and
// while it has a good part of its time left.
func (h *hold) mayPass(now time.Duration) bool {
	most := h.client.cfg.Handover.MaxTime
	return h.phase == held &&
		now-h.grantedAt < most && h.validUntil-now > h.lock.ttl/2
}
