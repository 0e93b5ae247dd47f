package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
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

	calls dispatch.Calls
}

// renew sends a round of renewal. The mutex is held, and the phase is held: so no
// renewal is ever submitted behind the release of its owner.
func (h *hold) renew(now time.Duration, done chan error) {
	n := h.client.nodes.Len()
	r := &renewal{hold: h, began: now, tally: quorum.NewTally(n, h.lock.need), done: done}
	h.proposal.Renews()
	r.calls.Aim(n, h.op(node.Renew))
	for i := range n {
		c := r.calls.To(i)
		c.To, c.Renews, c.Deadline = r, h.renews(), h.lock.deadline(now)
		if err := h.client.nodes.Submit(i, c); err != nil {
			r.record(i, 0, &node.Reply{Err: err, Unsent: true})
			continue
		}
		h.proposal.Expose(i)
	}
	if r.tally.Result() != quorum.Lost {
		return
	}
	// So many nodes are down that the round has failed before it began.
	r.over = true
	_ = r.conclude(now) // nobody has denied anything, so nothing ends the lease
}

// renews is how many nodes a renewal needs.
func (h *hold) renews() uint8 { return uint8(h.lock.need) } //nolint:gosec // at most quorum.MaxNodes

// nextRenewal is when to renew, after a round that was sent then and has succeeded.
func (h *hold) nextRenewal(sent time.Duration) time.Duration {
	due := quorum.NextRenewal(sent, h.lock.ttl, 0, h.client.cfg.Jitter())
	return quorum.Bunch(due, h.lock.ttl, h.client.phase)
}

// answer is a node's vote on the renewal. After the end of the lease it is ignored:
// nothing revives it.
func (r *renewal) Answer(c *dispatch.Call, reply *node.Reply) {
	if over := r.vote(c, reply); over != nil {
		r.hold.end(over)
	}
}

// AnswerLate is a node's answer after the deadline of its call. The confirmation counts all the
// same, while the lease is valid.
func (r *renewal) AnswerLate(c *dispatch.Call, reply *node.Reply) {
	h := r.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == held {
		h.note(c.Node(), c.Sent, reply)
		h.straggle()
	}
}

// vote counts an answer. An error is why the lease must end now.
func (r *renewal) vote(c *dispatch.Call, reply *node.Reply) (over error) {
	h := r.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != held {
		return nil
	}
	r.record(c.Node(), c.Sent, reply)
	if r.tally.Result() == quorum.Pending {
		h.straggle()
		return nil
	}
	if r.over {
		h.straggle()
		return r.evictedBy(reply)
	}
	now := h.client.clock.Now()
	if now >= h.validUntil {
		return nil
	}
	h.extendTo(now)
	h.reportBacking(now)
	r.over = true
	return r.conclude(now)
}

// record counts a vote. The mutex is held.
func (r *renewal) record(i int, sent time.Duration, reply *node.Reply) {
	v := r.hold.note(i, sent, reply)
	r.tally.Record(i, v)
	r.hold.tellVote(node.Renew, i, sent, reply, v)
}

// conclude decides what follows from a round that is won or lost. An error is why the
// lease must end now. The mutex is held.
func (r *renewal) conclude(now time.Duration) (over error) {
	h := r.hold
	if r.tally.Result() == quorum.Won {
		h.failures = 0
		if !h.lock.fixed {
			h.renewAt = h.nextRenewal(r.began)
		}
		h.client.schedule.set(h, h.nextDue())
		if hook := h.client.cfg.Hooks.Renewed; hook != nil {
			fire(&h.client.reports, hook, RenewedEvent{Names: h.lock.Names(), Owner: h.owner, Remaining: h.validUntil - now})
		}
		r.tell(nil)
		return nil
	}
	err := h.noQuorum("extend", &r.tally)
	if hook := h.client.cfg.Hooks.RenewalFailed; hook != nil {
		fire(&h.client.reports, hook, RenewalFailedEvent{Names: h.lock.Names(), Owner: h.owner, Remaining: h.validUntil - now, Err: err})
	}
	if over := r.evicted(); over != nil {
		return over
	}
	h.retryRenewal(now)
	r.tell(err)
	return nil
}

// tell gives the outcome to who waits, if anybody does. There is room for it.
func (r *renewal) tell(err error) {
	if r.done != nil {
		r.done <- err
	}
}

// minRetry is how soon a failed round of renewal is tried again at the earliest, as its lease ends.
const minRetry = 10 * time.Millisecond

// retryRenewal has a failed round tried again soon, and well before the end of the lease: pauses
// grow with the failures, beyond what is left of it at last, and nodes may be back before that.
func (h *hold) retryRenewal(now time.Duration) {
	if h.lock.fixed {
		return
	}
	h.failures++
	again := quorum.NextRenewal(now, h.lock.ttl, int(h.failures), h.client.cfg.Jitter())
	h.renewAt = min(again, now+max((h.validUntil-now)/2, minRetry))
	h.client.schedule.set(h, h.nextDue())
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
