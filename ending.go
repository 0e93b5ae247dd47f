package quorumlock

import (
	"errors"
	"time"
)

// end ends the lease, if it has not ended yet, and undoes it on the nodes.
func (h *grant) end(cause error) { h.endAt(h.client.clock.Now(), cause, nil) }

// endAt is end for somebody who waits for the nodes, if there is one, and who has just looked at
// the clock. It reports whether this call ended the lease.
func (h *grant) endAt(now time.Duration, cause error, r *releaseRound) bool {
	h.mu.Lock()
	over := h.endLocked(now, cause, r)
	h.mu.Unlock()
	if over {
		h.lease.jointLeases.beginReleases()
	}
	return over
}

// endLocked is endTo with the mutex held; what joint leases hold besides is left to the caller.
func (h *grant) endLocked(now time.Duration, cause error, r *releaseRound) bool {
	if h.state != stateHeld {
		return false
	}
	t := h.lease
	switch {
	case t.leaked:
	case t.reachedLimit(now):
		cause = ErrHoldLimit
	case now >= h.validUntil && !errors.Is(cause, ErrLost):
		cause = h.expiredError("its time had run out before it was released")
	}
	h.state = stateEnded
	t.end(cause)
	h.reportEnd(t, cause, now-t.grantedAt, false) // before anybody else can report a grant
	// In this order: a Close that does not find the hold any more may close the lanes. And
	// who of this client is next must not send anything before the release.
	h.releaseEverywhere(now, r)
	h.client.scheduler.remove(h)
	h.lock.returnSlots(true)
	h.client.queues.onReleased(h)
	if h.ticket != nil {
		h.ticket.abandon()
		h.client.messages.removeTicket(h.ticket)
	}
	return true
}

// reportEnd tells the log and the hooks. Only what nobody asked for is worth a line.
func (h *grant) reportEnd(t *lease, cause error, heldFor time.Duration, handedOver bool) {
	c := h.client
	switch {
	case errors.Is(cause, ErrReleased), errors.Is(cause, ErrClosed):
	case errors.Is(cause, ErrLeaked):
		c.warn("quorumlock: a lease was dropped without a Release; it is released now", "names", h.lock.names, "owner", h.owner, "held", heldFor)
	default:
		c.warn("quorumlock: lease ended", "names", h.lock.names, "owner", h.owner, "held", heldFor, "err", cause)
	}
	if hook := c.cfg.Hooks.Ended; hook != nil {
		report(&c.reporter, hook, EndedEvent{
			Names: h.lock.Names(), Owner: h.owner, Token: t.token, Held: heldFor, HandedOver: handedOver, Err: cause,
		})
	}
}

// expiredError is the error for a lease that ends by itself, as its time is up. The mutex is held.
func (h *grant) expiredError(reason string) error {
	if h.lock.noRenew {
		return h.lostError(LossExpired, reason)
	}
	return h.lostError(LossUnconfirmed, reason)
}

func (h *grant) lostError(cause LossCause, reason string) error {
	return &LostError{Names: h.lock.Names(), Owner: h.owner, Cause: cause, Reason: reason, Nodes: h.nodeErrors()}
}
