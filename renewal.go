package quorumlock

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// renewal is one round that asks every node, also those that did not have the lease
// before, to keep it for another TTL.
type renewal struct {
	hold  *hold
	began time.Duration
	tally quorum.Tally
	// done gets the outcome; nil where nobody waits.
	done chan error
	over bool
}

// renew sends a round of renewal. The mutex is held, and the phase is held: so no
// renewal is ever submitted behind the release of its owner.
// What it returns is to be run once the mutex is free.
func (h *hold) renew(now time.Duration, done chan error) (report func()) {
	n := len(h.client.lanes)
	r := &renewal{hold: h, began: now, tally: quorum.NewTally(n, h.lock.need), done: done}
	calls := make([]call, n)
	for i, l := range h.client.lanes {
		calls[i] = call{op: h.op(node.Renew), sink: r}
		before := h.asked
		h.asked |= 1 << i
		if err := l.submit(&calls[i]); err != nil {
			h.asked = before
			r.tally.Record(i, h.note(i, 0, node.Reply{Err: err, Unsent: true}))
		}
	}
	if r.tally.Result() != quorum.Lost {
		return func() {}
	}
	// So many nodes are down that the round has failed before it began.
	r.over = true
	return r.conclude(now)
}

// answer is a node's vote on the renewal. After the end of the lease it is ignored:
// nothing revives it.
func (r *renewal) answer(c *call, reply node.Reply) {
	h := r.hold
	h.mu.Lock()
	now := h.client.clock.Now()
	if h.phase != held || now >= h.validUntil {
		h.mu.Unlock()
		return
	}
	r.tally.Record(c.lane, h.note(c.lane, c.sent, reply))
	h.extendTo(now)
	if r.over || r.tally.Result() == quorum.Pending {
		h.mu.Unlock()
		return
	}
	r.over = true
	report := r.conclude(now)
	h.mu.Unlock()
	report()
}

// conclude decides what follows from a round that is won or lost. It is called with
// the mutex held; what it returns is run without it.
func (r *renewal) conclude(now time.Duration) (report func()) {
	h := r.hold
	hooks, remaining := h.client.cfg.Hooks, h.validUntil-now
	if r.tally.Result() == quorum.Won {
		h.failures = 0
		if !h.lock.fixed {
			h.renewAt = quorum.NextRenewal(r.began, h.lock.ttl, 0, h.client.jitter())
		}
		h.client.schedule.set(h, h.nextDue())
		r.tell(nil)
		return func() {
			fire(hooks.Renewed, func() RenewedEvent {
				return RenewedEvent{Names: h.lock.Names(), Owner: h.owner, Remaining: remaining}
			})
		}
	}
	err := h.noQuorum("extend", &r.tally)
	failed := func() RenewalFailedEvent {
		return RenewalFailedEvent{Names: h.lock.Names(), Owner: h.owner, Remaining: remaining, Err: err}
	}
	if r.tally.Blocked() {
		// Others have what a quorum needs, or an administrator took it: no retry can
		// succeed, and to know early is worth more than the rest of the TTL.
		over := h.lost(h.blockedReason())
		return func() {
			fire(hooks.RenewalFailed, failed)
			h.end(over)
			r.tell(over)
		}
	}
	h.retryRenewal(now)
	r.tell(err)
	return func() { fire(hooks.RenewalFailed, failed) }
}

// tell gives the outcome to who waits, if anybody does. There is room for it.
func (r *renewal) tell(err error) {
	if r.done != nil {
		r.done <- err
	}
}

// retryRenewal has a failed round tried again soon.
func (h *hold) retryRenewal(now time.Duration) {
	if h.lock.fixed {
		return
	}
	h.failures++
	h.renewAt = quorum.NextRenewal(now, h.lock.ttl, h.failures, h.client.jitter())
	h.client.schedule.set(h, h.nextDue())
}

// blockedReason says who stands in the way of a renewal.
func (h *hold) blockedReason() string {
	for _, r := range h.refusals {
		if errors.Is(refusalError(r), errForcedOff) {
			return "it was released by force"
		}
	}
	return "other owners hold it on too many nodes"
}

// noQuorum is the error for a round of this owner without a quorum.
func (h *hold) noQuorum(op string, t *quorum.Tally) *NoQuorumError {
	return &NoQuorumError{
		Op:      op,
		Names:   h.lock.Names(),
		Need:    t.Need(),
		Agreed:  t.Granted(),
		Pending: t.Missing(),
		Total:   t.Nodes(),
		Nodes:   h.nodeErrors(),
	}
}
