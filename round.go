package quorumlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// start sends the round of acquisition to all nodes in parallel. It stops early where so
// many nodes are down that the round is lost before it has begun.
func (h *grant) start(began time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sentAt = began
	if h.ticket != nil {
		h.ticket.beginAttempt(h.sentAt)
	}
	h.propose()
}

// propose proposes the token to every node that has not failed the round. The mutex is
// held.
func (h *grant) propose() { h.proposeTo(h.proposal.Begin()) }

// proposeTo sends the acquisition to some nodes, until the round is decided. The mutex is held.
func (h *grant) proposeTo(nodes quorum.Set) {
	calls := dispatch.NewCalls(h.client.nodes.Len(), h.acquireOp())
	for i := range nodes.All() {
		c := calls.To(i)
		c.To, c.Deadline = h, h.lock.deadline(h.sentAt)
		h.trace.onAsked()
		if h.ticket != nil {
			op := calls.Op
			h.ticket.stamp(&op, i)
			c.Op = &op
		}
		if err := h.client.nodes.Submit(i, c); err != nil {
			h.countVote(i, 0, h.proposal.Token(), &node.Reply{Err: err, Unsent: true})
		} else {
			h.proposal.Sent(i)
		}
		if h.proposal.Decided() {
			return
		}
	}
}

// Answer is a node's vote in the round of acquisition.
func (h *grant) Answer(c *dispatch.Call, r *node.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := c.Node()
	h.proposal.Answered(i)
	h.countVote(i, c.Sent, c.Op.Token, r)
	switch {
	case h.state == stateHeld:
		h.applyLateVote()
	case h.state == stateAcquiring && h.proposal.NeedsHigherToken() && h.lock.shared:
		h.proposeTo(h.proposal.WriteBack())
	case h.state == stateAcquiring && h.proposal.NeedsHigherToken():
		h.proposeHigher()
	case h.state == stateEnded && h.lease == nil && h.proposal.Exposed().Has(i):
		now := h.client.clock.Now()
		if h.ticket != nil && h.proposal.Votes().Vote(i) == quorum.Granted {
			h.ticket.onReturned(i, now)
		}
		// Before what has been sent since: that may be another attempt of the same waiter.
		h.undoAt(i, now, true)
	}
}

// countVote counts a node's answer to the acquisition with this token.
func (h *grant) countVote(i int, sent time.Duration, token uint64, r *node.Reply) {
	decided := h.proposal.Decided()
	r = h.plausible(i, token, r)
	v := h.recordReply(i, sent, r)
	h.reportVote(node.Acquire, i, sent, r, v)
	a := answerOf(token, r)
	a.Vote = v
	h.proposal.Answer(i, a)
	if h.lock.slots != nil {
		h.lock.slots.Learn(i, h.lock.names, r)
	}
	if h.ticket != nil {
		h.ticket.voted(i, h.client.clock.Now(), r)
	}
	if !decided && h.proposal.Decided() {
		close(h.decided)
	}
}

// answerOf is what a reply to an acquisition says, but for the vote.
func answerOf(token uint64, r *node.Reply) quorum.Answer {
	a := quorum.Answer{Proposed: token, Fence: max(r.Token, r.Holder.Token), Unsent: r.Unsent, Repeated: r.Repeated}
	if r.Outcome == node.Granted {
		a.Known = r.Token
	}
	return a
}

// plausible is the reply, or an error in its place where the node says what cannot be.
func (h *grant) plausible(i int, token uint64, r *node.Reply) *node.Reply {
	name := h.client.nodes.Name(i)
	switch {
	case h.proposal.Implausible(i, answerOf(token, r), uint64(h.client.cfg.limits().Recovery().Microseconds())):
		ahead := time.Duration(min(max(r.Token, token)-token, uint64(never/time.Microsecond))) * time.Microsecond
		return &node.Reply{Err: &node.Error{Node: name, Op: node.Acquire, Reason: node.ErrClock, Err: errImplausible(ahead)}}
	case h.lock.shared && r.Outcome == node.Granted && r.Token == 0:
		return &node.Reply{Err: &node.Error{Node: name, Op: node.Acquire, Reason: node.ErrProtocol, Err: errNoFence}}
	default:
		return r
	}
}

// errNoFence is for a node that does not do what readers need.
var errNoFence = errors.New("it granted a reader the lock, and told no fencing token")

// errImplausible is for a token that is so far ahead of ours that the node cannot have taken it.
type errImplausible time.Duration

func (e errImplausible) Error() string {
	return fmt.Sprintf("it says that it knows a token as large, %v ahead of ours, which cannot be", time.Duration(e))
}

// proposeHigher asks the nodes that granted to take a token that is larger than what enough
// of them have told.
func (h *grant) proposeHigher() {
	h.proposal.Raise(func(above uint64) uint64 { return h.client.tokenClock.propose(h.lock.names, above) })
	h.propose()
}

// becomeHeld turns a round that was won in time into a lease: at this instant, enough nodes
// have granted it, took its token, and have not let go.
func (h *grant) becomeHeld() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.client.clock.Now()
	if !h.proposal.Win(&h.claims, now) {
		return false
	}
	h.state, h.grantedAt, h.decided = stateHeld, now, nil
	h.validUntil = h.claims.ValidUntil(h.lock.need)
	h.client.tokenClock.observe(h.proposal.End(), h.lock.names...)
	h.firstLease.start(h, h.lock, h.proposal.Token(), now)
	if !h.lock.noRenew {
		h.nextRenewalAt = h.nextRenewal(h.sentAt)
	}
	if !h.client.scheduler.schedule(h, h.nextDue()) {
		h.lease = nil
		return false
	}
	h.client.queues.onTaken(h)
	return true
}

// rollBack ends a round that was lost, or that nobody waits for any more. Every node
// that may have taken it gives it back, once it has answered: one that denies has nothing.
// What was learnt of tokens serves the next.
func (h *grant) rollBack() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = stateEnded
	h.client.tokenClock.observe(h.proposal.FenceToBeat(), h.lock.names...)
	now := h.client.clock.Now()
	for i := range h.proposal.Exposed().All() {
		if h.proposal.Unanswered().Has(i) {
			continue
		}
		if h.ticket != nil && h.proposal.Votes().Vote(i) == quorum.Granted {
			h.ticket.onGaveBack(i, now)
		}
		h.undoAt(i, now, false)
	}
	h.lock.returnSlots(false)
}
