package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// retry says what to expect of another attempt.
type retry struct {
	useful bool
	// tokenRejected is set if a node has refused the token because of its clock.
	tokenRejected bool
	// freeAfter is when enough nodes can be expected to be free even if nobody
	// releases.
	freeAfter time.Duration
}

// attempt is one round: it asks all nodes and returns as soon as their votes decide.
// The votes of the slower ones are folded into the lease later, or undone.
func (l *Lock) attempt(ctx context.Context, w *waiter) (*grant, retry, error) {
	l, err := l.pickSlots(w)
	if err != nil {
		return nil, retry{}, err
	}
	h := newGrant(l, w)
	h.trace = l.client.traceFrom(ctx)
	h.start(l.client.now(w))
	select {
	case <-h.decided:
	case <-ctx.Done():
		h.rollBack()
		return nil, retry{}, h.cutShortError()
	case <-l.client.quit:
		h.rollBack()
		return nil, retry{}, ErrClosed
	}
	if h.becomeHeld() {
		return h, retry{}, nil
	}
	h.rollBack()
	again, err := h.lossError()
	return nil, again, err
}

// errCutShort marks what an attempt had come to when its context ended.
var errCutShort = errors.New("the attempt was cut short")

// cutShortError says how far the round had come.
func (h *grant) cutShortError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Errorf("%w: %w", h.noQuorumError("acquire", h.proposal.Taken()), errCutShort)
}

// gaveUpError is the error of an acquisition whose context has ended.
func gaveUpError(err, why error) error {
	return fmt.Errorf("%w: gave up: %w", err, why)
}

// lossError says why the round was lost, and what that means for another.
func (h *grant) lossError() (retry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	again := retry{useful: !h.permanentlyRefused(), tokenRejected: h.tokenTooFar(), freeAfter: h.expectedFreeAfter()}
	votes := h.proposal.Votes()
	if votes.Result() == quorum.Lost && votes.Denied() > 0 && votes.Unknown() <= h.claims.Nodes()-h.lock.need {
		// Enough nodes answer: what stands in the way is who holds it there.
		return again, h.heldError()
	}
	err := h.noQuorumError("acquire", h.proposal.Taken())
	err.Late = h.proposal.Taken().Result() == quorum.Won
	for i := range h.client.nodes.Len() {
		if h.proposal.Taken().Vote(i) == quorum.Denied {
			err.Nodes = append(err.Nodes, NodeError{Node: h.client.nodes.Name(i), Err: errTokenNotTaken})
		}
	}
	return again, err
}

// errTokenNotTaken is why the grant of a node did not count.
var errTokenNotTaken = errors.New("it granted the lock, but knows a fencing token as large as ours")

// permanentlyRefused reports whether so many nodes reject this call for good that no attempt can
// succeed.
func (h *grant) permanentlyRefused() bool {
	permanent := 0
	for _, r := range h.refusals.all() {
		var nodeErr *node.Error
		if !errors.As(r.Err, &nodeErr) {
			continue
		}
		// A block of tokens reaches further than one does that is the time.
		timely := h.proposal.End() == h.proposal.Token() && h.client.tokenClock.isCurrent(h.proposal.Token())
		if nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && timely { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > h.claims.Nodes()-h.lock.need
}

// tokenTooFar reports whether a node has refused the token because of its clock.
func (h *grant) tokenTooFar() bool {
	for _, r := range h.refusals.all() {
		if errors.Is(r.Err, node.ErrClock) {
			return true
		}
	}
	return false
}

// expectedFreeAfter is how long, by what the denials said, until a quorum is free.
func (h *grant) expectedFreeAfter() time.Duration {
	told := make([]time.Duration, 0, h.claims.Nodes())
	for _, r := range h.refusals.all() {
		if r.Outcome == node.Denied {
			told = append(told, holderTTL(r.Holder))
		}
	}
	return quorum.FreeAfter(told, h.claims.Nodes()-len(told), h.lock.need)
}

// heldError names the owner that denied on most nodes.
func (h *grant) heldError() error {
	votes := make(map[string]int)
	var most node.Holder
	for _, r := range h.refusals.all() {
		if r.Outcome != node.Denied {
			continue
		}
		if r.Holder.Owner == "" && most.Owner != "" {
			continue // it is left to another waiter there, and others know more
		}
		votes[r.Holder.Owner]++
		switch n := votes[r.Holder.Owner]; {
		case most.Owner == r.Holder.Owner:
			if holderTTL(r.Holder) > holderTTL(most) {
				most = r.Holder
			}
		case n > votes[most.Owner], most.Owner == "":
			most = r.Holder
		}
	}
	return &HeldError{Name: h.lock.displayName(most.Name), Owner: most.Owner, TTL: most.TTL, permits: h.lock.slots != nil}
}

// holderTTL is how long a claim lasts; a key without expiry lasts for ever.
func holderTTL(h node.Holder) time.Duration {
	if h.TTL == node.NoExpiry {
		return never
	}
	return h.TTL
}

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
