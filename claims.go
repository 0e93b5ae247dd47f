package quorumlock

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// note keeps what a node answered, and says what it counts as.
//
// A node that recovers has forgotten whom it granted the lock before. That it took this
// owner's renewal says nothing, unless this owner had a claim there all the time: then
// nobody else can have had one.
func (h *hold) note(i int, sent time.Duration, r *node.Reply) quorum.Vote {
	switch r.Outcome {
	case node.Granted, node.Healed:
		if r.Recovering > 0 && h.claims[i] <= h.client.clock.Now() {
			h.refusals.set(i, &node.Reply{Err: &node.Error{
				Node: h.client.nodes.Name(i), Op: node.Renew, Reason: node.ErrRecovering, Err: errUncounted,
			}})
			return quorum.Unknown
		}
		h.claims[i] = max(h.claims[i], quorum.Expiry(sent, h.lock.ttl))
		h.refusals.forgive(i)
		return quorum.Granted
	case node.Denied:
		// Whatever it confirmed before, it has let go.
		h.claims[i] = 0
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
	gain := quorum.ValidUntil(h.claims, h.lock.need) - h.validUntil
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
		h.validUntil = max(h.validUntil, quorum.ValidUntil(h.claims, h.lock.need))
	}
}

// errUncounted is why a renewal that a node took did not count.
var errUncounted = errors.New("it took the lock back, which counts from the first renewal after its recovery")
