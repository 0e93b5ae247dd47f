package quorumlock

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// renewalRound is one round that asks every node, also those that did not have the lease
// before, to keep it for another TTL.
type renewalRound struct {
	grant  *grant
	sentAt time.Duration
	tally  quorum.Tally
	// done gets the outcome; nil where nobody waits.
	done    chan error
	decided bool

	calls dispatch.Calls
}

// renew sends a round of renewal. The mutex is held, and the phase is held: so no
// renewal is ever submitted behind the release of its owner.
func (h *grant) renew(now time.Duration, done chan error) {
	n := h.client.nodes.Len()
	r := &renewalRound{grant: h, sentAt: now, tally: quorum.NewTally(n, h.lock.need), done: done}
	h.proposal.Renews()
	r.calls.Aim(n, h.operation(node.Renew))
	for i := range n {
		c := r.calls.To(i)
		c.To, c.Renews, c.Deadline = r, h.renews(), h.lock.deadline(now)
		if err := h.client.nodes.Submit(i, c); err != nil {
			r.recordVote(i, 0, &node.Reply{Err: err, Unsent: true})
			continue
		}
		h.proposal.Expose(i)
	}
	if r.tally.Result() != quorum.Lost {
		return
	}
	// So many nodes are down that the round has failed before it began.
	r.decided = true
	_ = r.finish(now) // nobody has denied anything, so nothing ends the lease
}

// renews is how many nodes a renewal needs.
func (h *grant) renews() uint8 { return uint8(h.lock.need) } //nolint:gosec // at most quorum.MaxNodes

// nextRenewal is when to renew, after a round that was sent then and has succeeded.
func (h *grant) nextRenewal(sent time.Duration) time.Duration {
	due := quorum.NextRenewal(sent, h.lock.ttl, 0, h.client.cfg.Jitter())
	return quorum.AlignToBunch(due, h.lock.ttl, h.client.renewalPhase)
}

// answer is a node's vote on the renewal. After the end of the lease it is ignored:
// nothing revives it.
func (r *renewalRound) Answer(c *dispatch.Call, reply *node.Reply) {
	if over := r.countVote(c, reply); over != nil {
		r.grant.end(over)
	}
}

// AnswerLate is a node's answer after the deadline of its call. The confirmation counts all the
// same, while the lease is valid.
func (r *renewalRound) AnswerLate(c *dispatch.Call, reply *node.Reply) {
	h := r.grant
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld {
		h.recordReply(c.Node(), c.Sent, reply)
		h.applyLateVote()
	}
}

// countVote counts an answer. An error is why the lease must end now.
func (r *renewalRound) countVote(c *dispatch.Call, reply *node.Reply) (over error) {
	h := r.grant
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != stateHeld {
		return nil
	}
	r.recordVote(c.Node(), c.Sent, reply)
	if r.tally.Result() == quorum.Pending {
		h.applyLateVote()
		return nil
	}
	if r.decided {
		h.applyLateVote()
		return r.evictedBy(reply)
	}
	now := h.client.clock.Now()
	if now >= h.validUntil {
		return nil
	}
	h.extendValidity(now)
	h.reportBacking(now)
	r.decided = true
	return r.finish(now)
}

// recordVote counts a vote. The mutex is held.
func (r *renewalRound) recordVote(i int, sent time.Duration, reply *node.Reply) {
	v := r.grant.recordReply(i, sent, reply)
	r.tally.Record(i, v)
	r.grant.reportVote(node.Renew, i, sent, reply, v)
}

// finish decides what follows from a round that is won or lost. An error is why the
// lease must end now. The mutex is held.
func (r *renewalRound) finish(now time.Duration) (over error) {
	h := r.grant
	if r.tally.Result() == quorum.Won {
		h.failedRenewals = 0
		if !h.lock.noRenew {
			h.nextRenewalAt = h.nextRenewal(r.sentAt)
		}
		h.client.scheduler.schedule(h, h.nextDue())
		if hook := h.client.cfg.Hooks.Renewed; hook != nil {
			report(&h.client.reporter, hook, RenewedEvent{Names: h.lock.Names(), Owner: h.owner, Remaining: h.validUntil - now})
		}
		r.reportResult(nil)
		return nil
	}
	err := h.noQuorumError("extend", &r.tally)
	if hook := h.client.cfg.Hooks.RenewalFailed; hook != nil {
		report(&h.client.reporter, hook, RenewalFailedEvent{Names: h.lock.Names(), Owner: h.owner, Remaining: h.validUntil - now, Err: err})
	}
	if over := r.evicted(); over != nil {
		return over
	}
	h.retryRenewal(now)
	r.reportResult(err)
	return nil
}

// reportResult gives the outcome to who waits, if anybody does. There is room for it.
func (r *renewalRound) reportResult(err error) {
	if r.done != nil {
		r.done <- err
	}
}

// minRetry is how soon a failed round of renewal is tried again at the earliest, as its lease ends.
const minRetry = 10 * time.Millisecond

// retryRenewal has a failed round tried again soon, and well before the end of the lease: pauses
// grow with the failures, beyond what is left of it at last, and nodes may be back before that.
func (h *grant) retryRenewal(now time.Duration) {
	if h.lock.noRenew {
		return
	}
	h.failedRenewals++
	again := quorum.NextRenewal(now, h.lock.ttl, int(h.failedRenewals), h.client.cfg.Jitter())
	h.nextRenewalAt = min(again, now+max((h.validUntil-now)/2, minRetry))
	h.client.scheduler.schedule(h, h.nextDue())
}

// noQuorumError is the error for a round of this owner without a quorum.
func (h *grant) noQuorumError(op string, t *quorum.Tally) *NoQuorumError {
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

// noCapacity is what renewalRoom returns while a renewal has to wait.
const noCapacity = never

// renewalRoom is how long a renewal that needs so many nodes takes if it is sent now, or noRoom.
func (c *Client) renewalRoom(need int) time.Duration {
	takes, ok := c.nodes.Capacity(need)
	if !ok {
		return noCapacity
	}
	return takes
}

// evicted says why the denials of a round of renewal end the lease, or nil if they do not. To
// end a lease early is always safe, and its holder learns of it a good part of a TTL earlier.
// The mutex is held.
//
// Any other denial, and any number of unknown answers, is not the loss of the lease: the
// denial may be of a contender in passing. See docs/adr/0007 and 0036.
func (r *renewalRound) evicted() error {
	h := r.grant
	if r.tally.Blocked() && h.hasTombstone() {
		return h.lostError(LossForced, "it was released by force")
	}
	if owner, ok := quorum.Usurper(r.holders()); ok {
		return h.lostToOwner(owner)
	}
	return nil
}

// evictedBy is evicted for a vote that came after the round was decided. The mutex is held.
func (r *renewalRound) evictedBy(reply *node.Reply) error {
	h := r.grant
	if reply.Outcome != node.Denied || h.client.clock.Now() >= h.validUntil {
		return nil
	}
	return r.evicted()
}

// holders are the owners that nodes named when they denied this round. The mutex is held.
func (r *renewalRound) holders() []string {
	owners := make([]string, r.tally.Nodes())
	for i, reply := range r.grant.refusals.all() {
		if r.tally.Vote(i) == quorum.Denied && reply.Outcome == node.Denied && r.grant.isFollowedBy(&reply.Holder) {
			owners[i] = reply.Holder.Owner
		}
	}
	return owners
}

// isFollowedBy reports whether the holder on a node came after this owner: the node then knows a
// larger token. A former holder, which a late renewal has put back, came before. Readers stand
// as one in a denial, which then names no single owner.
func (h *grant) isFollowedBy(other *node.Holder) bool {
	return other.Owner != h.owner && other.Owner != node.Readers && other.Token > h.proposal.End()
}

// hasTombstone reports whether a node has a tombstone for this owner. The mutex is held.
func (h *grant) hasTombstone() bool {
	for _, r := range h.refusals.all() {
		if errors.Is(replyError(r), errForcedOff) {
			return true
		}
	}
	return false
}

// lostToOwner is the error for a lease that another owner has taken. The mutex is held.
func (h *grant) lostToOwner(owner string) error {
	return takenBy(owner, &LostError{Names: h.lock.Names(), Owner: h.owner, Nodes: h.nodeErrors()})
}

// takenBy has an error say who took the lock.
func takenBy(owner string, e *LostError) *LostError {
	e.Cause, e.TakenBy = LossTaken, owner
	e.Reason = "another owner has it on a majority of the nodes: " + DescribeOwner(owner)
	return e
}
