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
func (g *grant) renew(now time.Duration, done chan error) {
	n := g.client.nodes.Len()
	r := &renewalRound{grant: g, sentAt: now, tally: quorum.NewTally(n, g.lock.need), done: done}
	g.proposal.Renews()
	r.calls.Aim(n, g.operation(node.Renew))
	for i := range n {
		c := r.calls.To(i)
		c.To, c.Renews, c.Deadline = r, g.renews(), g.lock.deadline(now)
		if err := g.client.nodes.Submit(i, c); err != nil {
			r.recordVote(i, 0, &node.Reply{Err: err, Unsent: true})
			continue
		}
		g.proposal.Expose(i)
	}
	if r.tally.Result() != quorum.Lost {
		return
	}
	// So many nodes are down that the round has failed before it began.
	r.decided = true
	_ = r.finish(now) // nobody has denied anything, so nothing ends the lease
}

// renews is how many nodes a renewal needs.
func (g *grant) renews() uint8 { return uint8(g.lock.need) } //nolint:gosec // at most quorum.MaxNodes

// nextRenewal is when to renew, after a round that was sent then and has succeeded.
func (g *grant) nextRenewal(sent time.Duration) time.Duration {
	due := quorum.NextRenewal(sent, g.lock.ttl, 0, g.client.cfg.Jitter())
	return quorum.Bunch(due, g.lock.ttl, g.client.renewalPhase)
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
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == stateHeld {
		g.recordReply(c.Node(), c.Sent, reply)
		g.applyLateVote()
	}
}

// countVote counts an answer. An error is why the lease must end now.
func (r *renewalRound) countVote(c *dispatch.Call, reply *node.Reply) (over error) {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != stateHeld {
		return nil
	}
	r.recordVote(c.Node(), c.Sent, reply)
	if r.tally.Result() == quorum.Pending {
		g.applyLateVote()
		return nil
	}
	if r.decided {
		g.applyLateVote()
		return r.evictedBy(reply)
	}
	now := g.client.clock.Now()
	if now >= g.validUntil {
		return nil
	}
	g.extendValidity(now)
	g.reportBacking(now)
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
	g := r.grant
	if r.tally.Result() == quorum.Won {
		g.failedRenewals = 0
		if !g.lock.noRenew {
			g.nextRenewalAt = g.nextRenewal(r.sentAt)
		}
		g.client.scheduler.schedule(g, g.nextDue())
		if hook := g.client.cfg.Hooks.Renewed; hook != nil {
			report(&g.client.reporter, hook, RenewedEvent{Names: g.lock.Names(), Owner: g.owner, Remaining: g.validUntil - now})
		}
		r.reportResult(nil)
		return nil
	}
	err := g.noQuorumError("extend", &r.tally)
	if hook := g.client.cfg.Hooks.RenewalFailed; hook != nil {
		report(&g.client.reporter, hook, RenewalFailedEvent{Names: g.lock.Names(), Owner: g.owner, Remaining: g.validUntil - now, Err: err})
	}
	if over := r.evicted(); over != nil {
		return over
	}
	g.retryRenewal(now)
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
func (g *grant) retryRenewal(now time.Duration) {
	if g.lock.noRenew {
		return
	}
	g.failedRenewals++
	again := quorum.NextRenewal(now, g.lock.ttl, int(g.failedRenewals), g.client.cfg.Jitter())
	g.nextRenewalAt = min(again, now+max((g.validUntil-now)/2, minRetry))
	g.client.scheduler.schedule(g, g.nextDue())
}

// noQuorumError is the error for a round of this owner without a quorum.
func (g *grant) noQuorumError(op string, t *quorum.Tally) *NoQuorumError {
	return &NoQuorumError{
		Op:      op,
		Names:   g.lock.Names(),
		Need:    t.Need(),
		Agreed:  t.Granted(),
		Pending: t.Missing(),
		Total:   t.Nodes(),
		Nodes:   g.nodeErrors(),
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
	g := r.grant
	if r.tally.Blocked() && g.hasTombstone() {
		return g.lostError(LossForced, "it was released by force")
	}
	if owner, ok := quorum.Usurper(r.holders()); ok {
		return g.lostToOwner(owner)
	}
	return nil
}

// evictedBy is evicted for a vote that came after the round was decided. The mutex is held.
func (r *renewalRound) evictedBy(reply *node.Reply) error {
	g := r.grant
	if reply.Outcome != node.Denied || g.client.clock.Now() >= g.validUntil {
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
func (g *grant) isFollowedBy(other *node.Holder) bool {
	return other.Owner != g.owner && other.Owner != node.Readers && other.Token > g.proposal.End()
}

// hasTombstone reports whether a node has a tombstone for this owner. The mutex is held.
func (g *grant) hasTombstone() bool {
	for _, r := range g.refusals.all() {
		if errors.Is(replyError(r), errForcedOff) {
			return true
		}
	}
	return false
}

// lostToOwner is the error for a lease that another owner has taken. The mutex is held.
func (g *grant) lostToOwner(owner string) error {
	return takenBy(owner, &LostError{Names: g.lock.Names(), Owner: g.owner, Nodes: g.nodeErrors()})
}

// takenBy has an error say who took the lock.
func takenBy(owner string, e *LostError) *LostError {
	e.Cause, e.TakenBy = LossTaken, owner
	e.Reason = "another owner has it on a majority of the nodes: " + DescribeOwner(owner)
	return e
}
