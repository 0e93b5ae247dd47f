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

// retry tells the waiter what to expect of another attempt.
type retry struct {
	// useful is set if another attempt can succeed.
	useful bool
	// tokenRejected is set if the clock of a node rejected the token.
	tokenRejected bool
	// freeAfter is how long until enough claims expire, if no holder releases.
	freeAfter time.Duration
}

// attempt asks all nodes once, and returns as soon as their votes decide. A late vote extends the
// lease, or is undone.
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

// start submits the attempt to all nodes. It stops early if too many nodes are down: the attempt is
// already lost.
func (g *grant) start(began time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sentAt = began
	if g.ticket != nil {
		g.ticket.beginAttempt(g.sentAt)
	}
	g.propose()
}

// propose proposes the token to every node that has not failed in this attempt. Requires g.mu.
func (g *grant) propose() { g.proposeTo(g.proposal.Begin()) }

// proposeTo submits the acquisition to some nodes, until the attempt is decided. Requires g.mu.
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

// Answer counts a node's vote on the acquisition.
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
		// The undo goes to the front: the same waiter may have queued another attempt since.
		g.undoAt(i, now, true)
	}
}

// countVote counts a node's answer to the acquisition with this token. Requires g.mu.
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

// answerOf converts a reply to an acquisition, except for the vote.
func answerOf(token uint64, r *node.Reply) quorum.Answer {
	a := quorum.Answer{Proposed: token, Fence: max(r.Token, r.Holder.Token), Unsent: r.Unsent, Repeated: r.Repeated}
	if r.Outcome == node.Granted {
		a.Known = r.Token
	}
	return a
}

// plausible returns the reply, or an error in its place if no sound node could give that reply.
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

// errNoFence means that a node granted a reader without a fencing token, which readers need.
var errNoFence = errors.New("granted a reader the lock without a fencing token")

// errImplausible is a token so far ahead of ours that no sound node could have accepted it.
type errImplausible time.Duration

func (e errImplausible) Error() string {
	return fmt.Sprintf("reported an implausible fencing token, %v ahead of ours", time.Duration(e))
}

// proposeHigher proposes a token above the fences that the nodes told. Requires g.mu.
func (g *grant) proposeHigher() {
	g.proposal.Raise(func(above uint64) uint64 { return g.client.tokenClock.propose(g.lock.names, above) })
	g.propose()
}

// becomeHeld turns a won attempt into a lease. It reports false if, at this instant, too few nodes
// have a claim that is still valid and took the token.
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

// rollBack ends an attempt that was lost, or whose caller has given up. Each node that may have
// granted it undoes it, after its answer. A node that denied has nothing to undo. The next attempt
// uses the fences that this one learned.
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

// errCutShort marks the error of an attempt whose context ended before the votes decided.
var errCutShort = errors.New("the attempt was cut short")

// cutShortError counts the votes that had arrived when the context ended.
func (g *grant) cutShortError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Errorf("%w: %w", g.noQuorumError("acquire", g.proposal.Taken()), errCutShort)
}

// gaveUpError wraps the last error of an acquisition whose context has ended.
func gaveUpError(err, why error) error {
	return fmt.Errorf("%w: gave up: %w", err, why)
}

// lossError returns why the attempt was lost, and what to expect of another.
func (g *grant) lossError() (retry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again := retry{useful: !g.permanentlyRefused(), tokenRejected: g.tokenTooFar(), freeAfter: g.expectedFreeAfter()}
	votes := g.proposal.Votes()
	if votes.Result() == quorum.Lost && votes.Denied() > 0 && votes.Unknown() <= g.claims.Nodes()-g.lock.need {
		// Enough nodes answered, so the holder is the obstacle.
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

// errTokenNotTaken explains why the grant of a node did not count.
var errTokenNotTaken = errors.New("granted, but rejected our fencing token as too small")

// permanentlyRefused reports whether too many nodes reject the call for good: then no attempt can
// succeed.
func (g *grant) permanentlyRefused() bool {
	permanent := 0
	for _, r := range g.refusals.all() {
		var nodeErr *node.Error
		if !errors.As(r.Err, &nodeErr) {
			continue
		}
		// The end of a token block lies ahead of the clock, so a clock error about it proves
		// nothing.
		timely := g.proposal.End() == g.proposal.Token() && g.client.tokenClock.isCurrent(g.proposal.Token())
		if nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && timely { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > g.claims.Nodes()-g.lock.need
}

// tokenTooFar reports whether the clock of a node rejected the token.
func (g *grant) tokenTooFar() bool {
	for _, r := range g.refusals.all() {
		if errors.Is(r.Err, node.ErrClock) {
			return true
		}
	}
	return false
}

// expectedFreeAfter estimates from the denials how long until a quorum is free.
func (g *grant) expectedFreeAfter() time.Duration {
	told := make([]time.Duration, 0, g.claims.Nodes())
	for _, r := range g.refusals.all() {
		if r.Outcome == node.Denied {
			told = append(told, holderTTL(r.Holder))
		}
	}
	return quorum.FreeAfter(told, g.claims.Nodes()-len(told), g.lock.need)
}

// heldError returns the error for a denied attempt. It names the owner that most nodes named.
func (g *grant) heldError() error {
	votes := make(map[string]int)
	var most node.Holder
	for _, r := range g.refusals.all() {
		if r.Outcome != node.Denied {
			continue
		}
		if r.Holder.Owner == "" && most.Owner != "" {
			continue // free there but reserved, and other nodes named the holder
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

// holderTTL returns how long a claim lasts. A key without expiry lasts for ever.
func holderTTL(h node.Holder) time.Duration {
	if h.TTL == node.NoExpiry {
		return never
	}
	return h.TTL
}
