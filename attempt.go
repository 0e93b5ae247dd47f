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
	g := newGrant(l, w)
	g.trace = l.client.traceFrom(ctx)
	g.start(l.client.now(w))
	select {
	case <-g.decided:
	case <-ctx.Done():
		g.rollBack()
		return nil, retry{}, g.cutShortError()
	case <-l.client.quit:
		g.rollBack()
		return nil, retry{}, ErrClosed
	}
	if g.becomeHeld() {
		return g, retry{}, nil
	}
	g.rollBack()
	again, err := g.lossError()
	return nil, again, err
}

// errCutShort marks what an attempt had come to when its context ended.
var errCutShort = errors.New("the attempt was cut short")

// cutShortError says how far the round had come.
func (g *grant) cutShortError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Errorf("%w: %w", g.noQuorumError("acquire", g.proposal.Taken()), errCutShort)
}

// gaveUpError is the error of an acquisition whose context has ended.
func gaveUpError(err, why error) error {
	return fmt.Errorf("%w: gave up: %w", err, why)
}

// lossError says why the round was lost, and what that means for another.
func (g *grant) lossError() (retry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again := retry{useful: !g.permanentlyRefused(), tokenRejected: g.tokenTooFar(), freeAfter: g.expectedFreeAfter()}
	votes := g.proposal.Votes()
	if votes.Result() == quorum.Lost && votes.Denied() > 0 && votes.Unknown() <= g.claims.Nodes()-g.lock.need {
		// Enough nodes answer: what stands in the way is who holds it there.
		return again, g.heldError()
	}
	err := g.noQuorumError("acquire", g.proposal.Taken())
	err.Late = g.proposal.Taken().Result() == quorum.Won
	for i := range g.client.nodes.Len() {
		if g.proposal.Taken().Vote(i) == quorum.Denied {
			err.Nodes = append(err.Nodes, NodeError{Node: g.client.nodes.Name(i), Err: errTokenNotTaken})
		}
	}
	return again, err
}

// errTokenNotTaken is why the grant of a node did not count.
var errTokenNotTaken = errors.New("it granted the lock, but knows a fencing token as large as ours")

// permanentlyRefused reports whether so many nodes reject this call for good that no attempt can
// succeed.
func (g *grant) permanentlyRefused() bool {
	permanent := 0
	for _, r := range g.refusals.all() {
		var nodeErr *node.Error
		if !errors.As(r.Err, &nodeErr) {
			continue
		}
		// A block of tokens reaches further than one does that is the time.
		timely := g.proposal.End() == g.proposal.Token() && g.client.tokenClock.isCurrent(g.proposal.Token())
		if nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && timely { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > g.claims.Nodes()-g.lock.need
}

// tokenTooFar reports whether a node has refused the token because of its clock.
func (g *grant) tokenTooFar() bool {
	for _, r := range g.refusals.all() {
		if errors.Is(r.Err, node.ErrClock) {
			return true
		}
	}
	return false
}

// expectedFreeAfter is how long, by what the denials said, until a quorum is free.
func (g *grant) expectedFreeAfter() time.Duration {
	told := make([]time.Duration, 0, g.claims.Nodes())
	for _, r := range g.refusals.all() {
		if r.Outcome == node.Denied {
			told = append(told, holderTTL(r.Holder))
		}
	}
	return quorum.FreeAfter(told, g.claims.Nodes()-len(told), g.lock.need)
}

// heldError names the owner that denied on most nodes.
func (g *grant) heldError() error {
	votes := make(map[string]int)
	var most node.Holder
	for _, r := range g.refusals.all() {
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
	return &HeldError{Name: g.lock.displayName(most.Name), Owner: most.Owner, TTL: most.TTL, permits: g.lock.slots != nil}
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
func (g *grant) start(began time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sentAt = began
	if g.ticket != nil {
		g.ticket.beginAttempt(g.sentAt)
	}
	g.propose()
}

// propose proposes the token to every node that has not failed the round. The mutex is
// held.
func (g *grant) propose() { g.proposeTo(g.proposal.Begin()) }

// proposeTo sends the acquisition to some nodes, until the round is decided. The mutex is held.
func (g *grant) proposeTo(nodes quorum.Set) {
	calls := dispatch.NewCalls(g.client.nodes.Len(), g.acquireOp())
	for i := range nodes.All() {
		c := calls.To(i)
		c.To, c.Deadline = g, g.lock.deadline(g.sentAt)
		g.trace.onAsked()
		if g.ticket != nil {
			op := calls.Op
			g.ticket.stamp(&op, i)
			c.Op = &op
		}
		if err := g.client.nodes.Submit(i, c); err != nil {
			g.countVote(i, 0, g.proposal.Token(), &node.Reply{Err: err, Unsent: true})
		} else {
			g.proposal.Sent(i)
		}
		if g.proposal.Decided() {
			return
		}
	}
}

// Answer is a node's vote in the round of acquisition.
func (g *grant) Answer(c *dispatch.Call, r *node.Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Node()
	g.proposal.Answered(i)
	g.countVote(i, c.Sent, c.Op.Token, r)
	switch {
	case g.state == stateHeld:
		g.applyLateVote()
	case g.state == stateAcquiring && g.proposal.NeedsHigherToken() && g.lock.shared:
		g.proposeTo(g.proposal.WriteBack())
	case g.state == stateAcquiring && g.proposal.NeedsHigherToken():
		g.proposeHigher()
	case g.state == stateEnded && g.lease == nil && g.proposal.Exposed().Has(i):
		now := g.client.clock.Now()
		if g.ticket != nil && g.proposal.Votes().Vote(i) == quorum.Granted {
			g.ticket.onReturned(i, now)
		}
		// Before what has been sent since: that may be another attempt of the same waiter.
		g.undoAt(i, now, true)
	}
}

// countVote counts a node's answer to the acquisition with this token.
func (g *grant) countVote(i int, sent time.Duration, token uint64, r *node.Reply) {
	decided := g.proposal.Decided()
	r = g.plausible(i, token, r)
	v := g.recordReply(i, sent, r)
	g.reportVote(node.Acquire, i, sent, r, v)
	a := answerOf(token, r)
	a.Vote = v
	g.proposal.Answer(i, a)
	if g.lock.slots != nil {
		g.lock.slots.Learn(i, g.lock.names, r)
	}
	if g.ticket != nil {
		g.ticket.voted(i, g.client.clock.Now(), r)
	}
	if !decided && g.proposal.Decided() {
		close(g.decided)
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
func (g *grant) plausible(i int, token uint64, r *node.Reply) *node.Reply {
	name := g.client.nodes.Name(i)
	switch {
	case g.proposal.Implausible(i, answerOf(token, r), uint64(g.client.cfg.limits().Recovery().Microseconds())):
		ahead := time.Duration(min(max(r.Token, token)-token, uint64(never/time.Microsecond))) * time.Microsecond
		return &node.Reply{Err: &node.Error{Node: name, Op: node.Acquire, Reason: node.ErrClock, Err: errImplausible(ahead)}}
	case g.lock.shared && r.Outcome == node.Granted && r.Token == 0:
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
func (g *grant) proposeHigher() {
	g.proposal.Raise(func(above uint64) uint64 { return g.client.tokenClock.propose(g.lock.names, above) })
	g.propose()
}

// becomeHeld turns a round that was won in time into a lease: at this instant, enough nodes
// have granted it, took its token, and have not let go.
func (g *grant) becomeHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.client.clock.Now()
	if !g.proposal.Win(&g.claims, now) {
		return false
	}
	g.state, g.grantedAt, g.decided = stateHeld, now, nil
	g.validUntil = g.claims.ValidUntil(g.lock.need)
	g.client.tokenClock.observe(g.proposal.End(), g.lock.names...)
	g.firstLease.start(g, g.lock, g.proposal.Token(), now)
	if !g.lock.noRenew {
		g.nextRenewalAt = g.nextRenewal(g.sentAt)
	}
	if !g.client.scheduler.schedule(g, g.nextDue()) {
		g.lease = nil
		return false
	}
	g.client.queues.onTaken(g)
	return true
}

// rollBack ends a round that was lost, or that nobody waits for any more. Every node
// that may have taken it gives it back, once it has answered: one that denies has nothing.
// What was learnt of tokens serves the next.
func (g *grant) rollBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = stateEnded
	g.client.tokenClock.observe(g.proposal.FenceToBeat(), g.lock.names...)
	now := g.client.clock.Now()
	for i := range g.proposal.Exposed().All() {
		if g.proposal.Unanswered().Has(i) {
			continue
		}
		if g.ticket != nil && g.proposal.Votes().Vote(i) == quorum.Granted {
			g.ticket.onGaveBack(i, now)
		}
		g.undoAt(i, now, false)
	}
	g.lock.returnSlots(false)
}
