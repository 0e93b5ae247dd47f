package quorumlock

import (
	"errors"
	"time"
)

// end ends the lease, if it has not ended yet, and undoes it on the nodes.
func (h *hold) end(cause error) { h.endTo(h.client.clock.Now(), cause, nil) }

// endTo is end for somebody who waits for the nodes, if there is one, and who has just looked at
// the clock. It reports whether this call ended the lease.
func (h *hold) endTo(now time.Duration, cause error, r *releasing) bool {
	h.mu.Lock()
	over := h.finish(now, cause, r)
	h.mu.Unlock()
	if over {
		h.tenure.joints.giveBack()
	}
	return over
}

// finish is endTo with the mutex held; what joint leases hold besides is left to the caller.
func (h *hold) finish(now time.Duration, cause error, r *releasing) bool {
	if h.phase != held {
		return false
	}
	t := h.tenure
	switch {
	case t.leaked:
	case t.reachedLimit(now):
		cause = ErrHoldLimit
	case now >= h.validUntil && !errors.Is(cause, ErrLost):
		cause = h.lost("its time had run out before it was released")
	}
	h.phase = ended
	t.end(cause)
	h.reportEnd(t, cause, now-t.grantedAt, false) // before anybody else can report a grant
	// In this order: a Close that does not find the hold any more may close the lanes. And
	// who of this client is next must not send anything before the release.
	h.undo(now, r)
	h.client.schedule.remove(h)
	h.lock.unname(true)
	h.client.lines.gave(h)
	if h.entry != nil {
		h.entry.forget()
		h.client.router.unlist(h.entry)
	}
	return true
}

// reportEnd tells the log and the hooks. Only what nobody asked for is worth a line.
func (h *hold) reportEnd(t *tenure, cause error, heldFor time.Duration, handedOver bool) {
	c := h.client
	switch {
	case errors.Is(cause, ErrReleased), errors.Is(cause, ErrClosed):
	case errors.Is(cause, ErrLeaked):
		c.warn("quorumlock: a lease was dropped without a Release; it is released now", "names", h.lock.names, "owner", h.owner, "held", heldFor)
	default:
		c.warn("quorumlock: lease ended", "names", h.lock.names, "owner", h.owner, "held", heldFor, "err", cause)
	}
	if hook := c.cfg.Hooks.Ended; hook != nil {
		fire(&c.reports, hook, EndedEvent{
			Names: h.lock.Names(), Owner: h.owner, Token: t.token, Held: heldFor, HandedOver: handedOver, Err: cause,
		})
	}
}

// lost is the error for a lease that ends by itself, as its time is up. The mutex is held.
func (h *hold) lost(reason string) error {
	if h.lock.fixed {
		return h.lostTo(LossExpired, reason)
	}
	return h.lostTo(LossUnconfirmed, reason)
}

func (h *hold) lostTo(cause LossCause, reason string) error {
	return &LostError{Names: h.lock.Names(), Owner: h.owner, Cause: cause, Reason: reason, Nodes: h.nodeErrors()}
}
