package quorumlock

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// note records what a node answered, and returns the vote that it counts as.
func (h *hold) note(i int, sent time.Duration, r *node.Reply) quorum.Vote {
	switch r.Outcome {
	case node.Granted, node.Healed:
		recovering := r.Recovering > 0
		var now time.Duration
		if recovering {
			now = h.client.clock.Now()
		}
		if !h.claims.Confirm(i, sent, h.lock.ttl, now, recovering) {
			h.refusals.set(i, &node.Reply{Err: &node.Error{
				Node: h.client.nodes.Name(i), Op: node.Renew, Reason: node.ErrRecovering, Err: errUncounted,
			}})
			return quorum.Unknown
		}
		h.refusals.forgive(i)
		return quorum.Granted
	case node.Denied:
		h.claims.Drop(i)
		h.refusals.set(i, r)
		return quorum.Denied
	default:
		h.refusals.set(i, r)
		return quorum.Unknown
	}
}

// trifle is what it is not worth to look at the clock for, in the life of a lease.
const trifle = time.Millisecond

// straggle has the answer of a node that does not decide prolong a lease that is held.
func (h *hold) straggle() {
	gain := h.claims.ValidUntil(h.lock.need) - h.validUntil
	if gain < trifle && h.client.cfg.Hooks.BackingChanged == nil {
		return
	}
	now := h.client.clock.Now()
	h.extendTo(now)
	h.reportBacking(now)
}

// extendTo moves validUntil to what the claims allow. Nothing revives a lease whose
// time is over: such claims come to nothing.
func (h *hold) extendTo(now time.Duration) {
	if now < h.validUntil {
		h.validUntil = max(h.validUntil, h.claims.ValidUntil(h.lock.need))
	}
}

// errUncounted is why a renewal that a node took did not count.
var errUncounted = errors.New("it took the lock back, which counts from the first renewal after its recovery")
