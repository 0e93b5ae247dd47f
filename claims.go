package quorumlock

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// recordReply records what a node answered, and returns the vote that it counts as.
func (h *grant) recordReply(i int, sent time.Duration, r *node.Reply) quorum.Vote {
	switch r.Outcome {
	case node.Granted, node.Healed:
		recovering := r.Recovering > 0
		var now time.Duration
		if recovering {
			now = h.client.clock.Now()
		}
		if !h.claims.Confirm(i, sent, h.lock.ttl, now, recovering) {
			h.refusals.set(i, &node.Reply{Err: &node.Error{
				Node: h.client.nodes.Name(i), Op: node.Renew, Reason: node.ErrRecovering, Err: errHealUncounted,
			}})
			return quorum.Unknown
		}
		h.refusals.clear(i)
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

// minGain is what it is not worth to look at the clock for, in the life of a lease.
const minGain = time.Millisecond

// applyLateVote has the answer of a node that does not decide prolong a lease that is held.
func (h *grant) applyLateVote() {
	gain := h.claims.ValidUntil(h.lock.need) - h.validUntil
	if gain < minGain && h.client.cfg.Hooks.BackingChanged == nil {
		return
	}
	now := h.client.clock.Now()
	h.extendValidity(now)
	h.reportBacking(now)
}

// extendValidity moves validUntil to what the claims allow. Nothing revives a lease whose
// time is over: such claims come to nothing.
func (h *grant) extendValidity(now time.Duration) {
	if now < h.validUntil {
		h.validUntil = max(h.validUntil, h.claims.ValidUntil(h.lock.need))
	}
}

// errHealUncounted is why a renewal that a node took did not count.
var errHealUncounted = errors.New("it took the lock back, which counts from the first renewal after its recovery")
