package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Request is what one attempt needs besides its Spec.
type Request struct {
	// Began is the time at which the attempt begins.
	Began time.Duration
	// Ticket is the place of the waiter that acquires, or nil.
	Ticket Ticket
	// Reserve makes the attempt reserve tokens, for waiters to which the lease is handed over.
	Reserve bool
	// Hints are the slots of a semaphore that nodes have offered to the waiter, or nil.
	Hints []quorum.Slots
	// Trace records the attempt, or is nil.
	Trace Trace
}

// Retry tells a waiter what to expect of another attempt.
type Retry struct {
	// Useful is set if another attempt can succeed.
	Useful bool
	// CutShort is set if the context ended before the votes decided. The error then says less than
	// that of an earlier complete attempt.
	CutShort bool
	// TokenRejected is set if the clock of a node rejected the token.
	TokenRejected bool
	// OtherSlots is set for a semaphore if the attempt asked for slots that are taken, while nodes
	// report enough others as free.
	OtherSlots bool
	// FreeAfter is how long until enough claims expire, if no holder releases.
	FreeAfter time.Duration
}

// Attempt asks all nodes once, and returns as soon as their votes decide. A late vote extends the
// lease, or is undone.
func (e *Engine) Attempt(ctx context.Context, s *Spec, r Request) (*Lease, Retry, error) {
	if s.Slots != nil {
		names, size, ok := s.Slots.Choose(s.Need, r.Hints)
		if !ok {
			return nil, Retry{}, e.Errors.TooManyPermits(s.Slots.Want, size)
		}
		chosen := *s
		chosen.Names = names
		s = &chosen
	}
	g := newGrant(e, s, r)
	g.start(r.Began)
	select {
	case <-g.decided:
	case <-ctx.Done():
		g.rollBack()
		return nil, Retry{CutShort: true}, g.cutShortError()
	case <-e.Closing:
		g.rollBack()
		return nil, Retry{}, ErrClosed
	}
	if g.becomeHeld() {
		return &g.firstLease, Retry{}, nil
	}
	g.rollBack()
	again, err := g.lossError()
	return nil, again, err
}

// start submits the attempt to all nodes. It stops early if too many nodes are down: the attempt is
// already lost.
func (g *Grant) start(began time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sentAt = began
	if g.ticket != nil {
		g.ticket.Begin(g.sentAt)
	}
	g.propose()
}

// propose proposes the token to every node that has not failed in this attempt. Requires g.mu.
func (g *Grant) propose() { g.proposeTo(g.proposal.Begin()) }

// proposeTo submits the acquisition to some nodes, until the attempt is decided. Requires g.mu.
func (g *Grant) proposeTo(nodes quorum.Set) {
	calls := dispatch.NewCalls(g.engine.Nodes.Len(), g.acquireOp())
	for i := range nodes.All() {
		c := calls.To(i)
		c.To, c.Deadline = g, g.engine.deadline(g.spec, g.sentAt)
		if g.trace != nil {
			g.trace.Asked()
		}
		if g.ticket != nil {
			op := calls.Op
			g.ticket.Stamp(&op, i)
			c.Op = &op
		}
		if err := g.engine.Nodes.Submit(i, c); err != nil {
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
func (g *Grant) Answer(c *dispatch.Call, r *node.Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Node()
	g.proposal.Answered(i)
	g.countVote(i, c.Sent, c.Op.Token, r)
	switch {
	case g.state == stateHeld:
		g.applyLateVote()
	case g.state == stateAcquiring && g.proposal.NeedsHigherToken() && g.spec.Reads:
		g.proposeTo(g.proposal.WriteBack())
	case g.state == stateAcquiring && g.proposal.NeedsHigherToken():
		g.proposeHigher()
	case g.state == stateEnded && g.lease == nil && g.proposal.Exposed().Has(i):
		// The undo goes to the front: the same waiter may have queued another attempt since.
		g.rollBackOn(quorum.Set(0).With(i), true)
	}
}

// countVote counts a node's answer to the acquisition with this token. Requires g.mu.
func (g *Grant) countVote(i int, sent time.Duration, token uint64, r *node.Reply) {
	decided := g.proposal.Decided()
	r = g.plausible(i, token, r)
	v := g.recordReply(i, sent, r)
	g.reportVote(node.Acquire, i, sent, r, v)
	a := answerOf(token, r)
	a.Vote = v
	g.proposal.Answer(i, a)
	if g.spec.Slots != nil {
		g.spec.Slots.Learn(i, g.spec.Names, r)
	}
	if g.ticket != nil {
		g.ticket.Voted(i, g.engine.Clock.Now(), r)
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
func (g *Grant) plausible(i int, token uint64, r *node.Reply) *node.Reply {
	name := g.engine.Nodes.Name(i)
	switch {
	case g.proposal.Implausible(i, answerOf(token, r), uint64(g.engine.Limits.Recovery().Microseconds())):
		ahead := time.Duration(min(max(r.Token, token)-token, uint64(Never/time.Microsecond))) * time.Microsecond
		return &node.Reply{Err: &node.Error{Node: name, Op: node.Acquire, Reason: node.ErrClock, Err: errImplausible(ahead)}}
	case g.spec.Reads && r.Outcome == node.Granted && r.Token == 0:
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
func (g *Grant) proposeHigher() {
	g.proposal.Raise(func(above uint64) uint64 { return g.engine.Tokens.Propose(g.spec.Names, above) })
	g.propose()
}

// becomeHeld turns a won attempt into a lease. It reports false if, at this instant, too few nodes
// have a claim that is still valid and took the token.
func (g *Grant) becomeHeld() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	if !g.proposal.Win(&g.claims, now) {
		return false
	}
	g.state, g.grantedAt, g.decided = stateHeld, now, nil
	g.validUntil = g.claims.ValidUntil(g.spec.Need)
	g.engine.Tokens.Observe(g.proposal.End(), g.spec.Names...)
	g.firstLease.start(g, g.spec, g.proposal.Token(), now)
	if !g.spec.Fixed {
		g.nextRenewalAt = g.nextRenewal(g.sentAt)
	}
	if !g.engine.scheduler.schedule(g, g.nextDue()) {
		g.lease = nil
		return false
	}
	g.engine.locals.OnTaken(g)
	return true
}

// rollBack ends an attempt that was lost, or whose caller has given up. Each node that may have
// granted it undoes it, after its answer. A node that denied has nothing to undo. The next attempt
// uses the fences that this one learned.
func (g *Grant) rollBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = stateEnded
	g.engine.Tokens.Observe(g.proposal.FenceToBeat(), g.spec.Names...)
	if answered := g.proposal.Exposed() &^ g.proposal.Unanswered(); answered != 0 {
		g.rollBackOn(answered, false)
	}
	g.spec.returnSlots(false)
}

// cutShortError counts the votes that had arrived when the context ended.
func (g *Grant) cutShortError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Errorf("%w: %w", g.engine.Errors.NoQuorum(g.shortage("acquire", g.proposal.Taken())), ErrCutShort)
}

// lossError returns why the attempt was lost, and what to expect of another.
func (g *Grant) lossError() (Retry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again := Retry{Useful: !g.permanentlyRefused(), TokenRejected: g.tokenTooFar(), FreeAfter: g.expectedFreeAfter()}
	votes := g.proposal.Votes()
	if votes.Result() == quorum.Lost && votes.Denied() > 0 && votes.Unknown() <= g.claims.Nodes()-g.spec.Need {
		// Enough nodes answered, so the holder is the obstacle.
		holder := g.holder()
		// If the lock is free but reserved, no other slots help.
		again.OtherSlots = g.spec.Slots != nil && !(holder.Owner == "" && holder.TTL > 0) && g.spec.Slots.Promising(g.spec.Need)
		return again, g.heldBy(holder.Name, holder.Owner, holder.TTL)
	}
	short := g.shortage("acquire", g.proposal.Taken())
	short.Late = g.proposal.Taken().Result() == quorum.Won
	for i := range g.engine.Nodes.Len() {
		if g.proposal.Taken().Vote(i) == quorum.Denied {
			short.Nodes = append(short.Nodes, NodeError{g.engine.Nodes.Name(i), errTokenNotTaken})
		}
	}
	return again, g.engine.Errors.NoQuorum(short)
}

// errTokenNotTaken explains why the grant of a node did not count.
var errTokenNotTaken = errors.New("granted, but rejected our fencing token as too small")

// permanentlyRefused reports whether too many nodes reject the call for good: then no attempt can
// succeed.
func (g *Grant) permanentlyRefused() bool {
	permanent := 0
	for _, r := range g.refusals.all() {
		var nodeErr *node.Error
		if !errors.As(r.Err, &nodeErr) {
			continue
		}
		// The end of a token block lies ahead of the clock, so a clock error about it proves
		// nothing.
		timely := g.proposal.End() == g.proposal.Token() && g.engine.Tokens.IsCurrent(g.proposal.Token())
		if nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && timely { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > g.claims.Nodes()-g.spec.Need
}

// tokenTooFar reports whether the clock of a node rejected the token.
func (g *Grant) tokenTooFar() bool {
	for _, r := range g.refusals.all() {
		if errors.Is(r.Err, node.ErrClock) {
			return true
		}
	}
	return false
}

// expectedFreeAfter estimates from the denials how long until a quorum is free.
func (g *Grant) expectedFreeAfter() time.Duration {
	told := make([]time.Duration, 0, g.claims.Nodes())
	for _, r := range g.refusals.all() {
		if r.Outcome == node.Denied {
			told = append(told, HolderTTL(r.Holder))
		}
	}
	return quorum.FreeAfter(told, g.claims.Nodes()-len(told), g.spec.Need)
}

// holder returns the owner that most nodes named when they denied the attempt.
func (g *Grant) holder() node.Holder {
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
			if HolderTTL(r.Holder) > HolderTTL(most) {
				most = r.Holder
			}
		case n > votes[most.Owner], most.Owner == "":
			most = r.Holder
		}
	}
	return most
}

// heldBy returns the error that names an owner of one of the names.
func (g *Grant) heldBy(name, owner string, ttl time.Duration) error {
	return g.engine.Errors.Held(Holder{Name: g.spec.DisplayName(name), Owner: owner, TTL: ttl, Permits: g.spec.Slots != nil})
}

// HolderTTL returns how long a claim lasts. A key without expiry lasts for ever.
func HolderTTL(h node.Holder) time.Duration {
	if h.TTL == node.NoExpiry {
		return Never
	}
	return h.TTL
}
