package quorumlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// ask sends the round of acquisition to all nodes in parallel. It stops early where so
// many nodes are down that the round is lost before it has begun.
func (h *hold) ask(began time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = began
	if h.entry != nil {
		h.entry.begin(h.began)
	}
	h.send()
}

// send proposes the token to every node that has not failed the round. The mutex is
// held.
func (h *hold) send() { h.sendTo(h.proposal.Begin()) }

// sendTo sends the acquisition to some nodes, until the round is decided. The mutex is held.
func (h *hold) sendTo(nodes quorum.Set) {
	calls := dispatch.NewCalls(h.client.nodes.Len(), h.acquisition())
	for i := range nodes.All() {
		c := calls.To(i)
		c.To, c.Deadline = h, h.lock.deadline(h.began)
		h.trail.asks()
		if h.entry != nil {
			op := calls.Op
			h.entry.sign(&op, i)
			c.Op = &op
		}
		if err := h.client.nodes.Submit(i, c); err != nil {
			h.vote(i, 0, h.proposal.Token(), &node.Reply{Err: err, Unsent: true})
		} else {
			h.proposal.Sent(i)
		}
		if h.proposal.Decided() {
			return
		}
	}
}

// Answer is a node's vote in the round of acquisition.
func (h *hold) Answer(c *dispatch.Call, r *node.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := c.Node()
	h.proposal.Answered(i)
	h.vote(i, c.Sent, c.Op.Token, r)
	switch {
	case h.phase == held:
		h.straggle()
	case h.phase == acquiring && h.proposal.NeedsHigherToken() && h.lock.reads:
		h.sendTo(h.proposal.WriteBack())
	case h.phase == acquiring && h.proposal.NeedsHigherToken():
		h.proposeAgain()
	case h.phase == ended && h.tenure == nil && h.proposal.Exposed().Has(i):
		now := h.client.clock.Now()
		if h.entry != nil && h.proposal.Votes().Vote(i) == quorum.Granted {
			h.entry.returned(i, now)
		}
		// Before what has been sent since: that may be another attempt of the same waiter.
		h.undoOne(i, now, true)
	}
}

// vote counts a node's answer to the acquisition with this token.
func (h *hold) vote(i int, sent time.Duration, token uint64, r *node.Reply) {
	decided := h.proposal.Decided()
	r = h.believable(i, token, r)
	v := h.note(i, sent, r)
	h.tellVote(node.Acquire, i, sent, r, v)
	a := answerOf(token, r)
	a.Vote = v
	h.proposal.Answer(i, a)
	if h.lock.slots != nil {
		h.lock.slots.Learn(i, h.lock.names, r)
	}
	if h.entry != nil {
		h.entry.voted(i, h.client.clock.Now(), r)
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

// believable is the reply, or an error in its place where the node says what cannot be.
func (h *hold) believable(i int, token uint64, r *node.Reply) *node.Reply {
	name := h.client.nodes.Name(i)
	switch {
	case h.proposal.Implausible(i, answerOf(token, r), uint64(h.client.cfg.limits().Recovery().Microseconds())):
		ahead := time.Duration(min(max(r.Token, token)-token, uint64(never/time.Microsecond))) * time.Microsecond
		return &node.Reply{Err: &node.Error{Node: name, Op: node.Acquire, Reason: node.ErrClock, Err: errImplausible(ahead)}}
	case h.lock.reads && r.Outcome == node.Granted && r.Token == 0:
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

// proposeAgain asks the nodes that granted to take a token that is larger than what enough
// of them have told.
func (h *hold) proposeAgain() {
	h.proposal.Raise(func(above uint64) uint64 { return h.client.tokens.propose(h.lock.names, above) })
	h.send()
}

// win turns a round that was won in time into a lease: at this instant, enough nodes
// have granted it, took its token, and have not let go.
func (h *hold) win() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.client.clock.Now()
	if !h.proposal.Win(&h.claims, now) {
		return false
	}
	h.phase, h.grantedAt, h.decided = held, now, nil
	h.validUntil = h.claims.ValidUntil(h.lock.need)
	h.client.tokens.saw(h.proposal.End(), h.lock.names...)
	h.first.begin(h, h.lock, h.proposal.Token(), now)
	if !h.lock.fixed {
		h.renewAt = h.nextRenewal(h.began)
	}
	if !h.client.schedule.set(h, h.nextDue()) {
		h.tenure = nil
		return false
	}
	h.client.lines.took(h)
	return true
}

// abandon ends a round that was lost, or that nobody waits for any more. Every node
// that may have taken it gives it back, once it has answered: one that denies has nothing.
// What was learnt of tokens serves the next.
func (h *hold) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = ended
	h.client.tokens.saw(h.proposal.FenceToBeat(), h.lock.names...)
	now := h.client.clock.Now()
	for i := range h.proposal.Exposed().All() {
		if h.proposal.Unanswered().Has(i) {
			continue
		}
		if h.entry != nil && h.proposal.Votes().Vote(i) == quorum.Granted {
			h.entry.gaveBack(i, now)
		}
		h.undoOne(i, now, false)
	}
	h.lock.unname(false)
}
