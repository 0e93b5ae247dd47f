package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Request has the inputs of one attempt besides its Spec.
type Request struct {
	// Began is the time at which the attempt begins.
	Began time.Duration
	// Ticket is the place of the waiter that acquires, or nil.
	Ticket Ticket
	// Reserve makes the attempt reserve tokens, for waiters to which the lease is handed over.
	Reserve bool
	// Hints are the slots of a semaphore that nodes have offered to the waiter, or nil.
	Hints []decision.Slots
	// Trace records the attempt, or is nil.
	Trace Trace
}

// Retry tells a waiter what to expect of another attempt.
type Retry struct {
	// Useful is set if another attempt can succeed.
	Useful bool
	// CutShort is set if the context ended before the votes decided. The error of an earlier
	// complete attempt then says more.
	CutShort bool
	// TokenRejected is set if the clock of a node rejected the token.
	TokenRejected bool
	// OtherSlots is set for a semaphore if the attempt asked for slots that are taken, while nodes
	// report enough others as free.
	OtherSlots bool
	// NotAsked is set if no node was asked, as this request cannot succeed. The error says nothing
	// about other requests.
	NotAsked bool
	// FreeAfter is how long until enough claims expire, if no holder releases.
	FreeAfter time.Duration
}

// Attempt asks all nodes, and returns as soon as their votes decide. If too many nodes know a larger
// token, it asks again with a higher one. A late vote extends the lease, or is undone.
//
// Before the first attempt, and after a pause, it waits until the nodes that answer have noted the client's list of nodes.
func (e *Engine) Attempt(ctx context.Context, s *Spec, r Request) (*Lease, Retry, error) {
	if r.Trace != nil {
		began := e.Clock.Now()
		defer func(t Trace) { t.Attempted(e.Clock.Now() - began) }(r.Trace)
	}
	if now, ok := e.Nodes.Enlist(r.Began, s.Need, ctx.Done(), e.Closing); ok {
		r.Began = now
	} else if ctx.Err() != nil {
		return nil, Retry{CutShort: true}, &pair{e.NotAskedError(s), ": ", ErrCutShort}
	} else {
		return nil, Retry{}, ErrClosed
	}
	if s.Slots != nil {
		names, size, ok := s.Slots.Choose(s.Need, r.Hints)
		if !ok {
			return nil, Retry{NotAsked: true}, e.Errors.TooManyPermits(s.Slots.Want, size)
		}
		chosen := *s
		chosen.Names = names
		s = &chosen
	}
	a := newAttempt(e, s, r)
	a.start()
	select {
	case <-a.decided:
	case <-ctx.Done():
		a.rollBack(true)
		return nil, Retry{CutShort: true}, a.cutShortError()
	case <-e.Closing:
		a.rollBack(true)
		return nil, Retry{}, ErrClosed
	}
	if a.becomeHeld() {
		return &a.grant.firstLease, Retry{}, nil
	}
	a.rollBack(false)
	again, err := a.lossError()
	return nil, again, err
}

// NotAskedError is the error of a waiter that gave up before it asked any node.
func (e *Engine) NotAskedError(s *Spec) error {
	n := e.Nodes.Len()
	return e.Errors.NoQuorum(Shortage{Op: wire.Acquire.String(), Spec: s, Need: s.Need, Pending: n, Total: n})
}

// CrowdedError is NotAskedError for a waiter that the nodes could not have answered in time.
func (e *Engine) CrowdedError(s *Spec) error { return &pair{e.NotAskedError(s), ": ", errCrowded} }

// errCrowded is why nodes were not asked.
var errCrowded = errors.New("more calls wait for the nodes than they can answer in time")

// attempt is the acquisition of a grant. It is gone when all nodes have voted, or the attempt was
// lost: a held lease does not need it. The mutex of its grant guards its fields.
type attempt struct {
	grant *Grant
	// decided is closed when the attempt is won or lost, and isDecided is set. Later answers may change what the
	// proposal says.
	decided   chan struct{}
	isDecided bool
	// trace records the call that acquires, or is nil.
	trace Trace
	// sentAt is when the attempt was sent, and roundAt when its last fan-out was.
	sentAt, roundAt time.Duration

	proposal decision.Proposal
	// calls are the calls of the first fan-out, in the same piece of memory. more has those of later ones.
	calls dispatch.Calls
	more  []*dispatch.Calls
}

func newAttempt(e *Engine, s *Spec, r Request) *attempt {
	a := &attempt{grant: newGrant(e, s, r.Ticket), decided: make(chan struct{}), trace: r.Trace, sentAt: r.Began, roundAt: r.Began}
	token := e.Tokens.Propose(s.Names, 0)
	end := token
	if r.Reserve {
		end += decision.Block(e.Tokens.BlockEnd(), token, e.MaxHandovers)
	}
	a.proposal = decision.NewProposal(e.Nodes.Len(), s.Need, s.Reads, token, end)
	a.grant.proposal = &a.proposal
	return a
}

// start submits the attempt to all nodes. It stops early if too many nodes are down: the attempt is
// already lost.
func (a *attempt) start() {
	a.grant.mu.Lock()
	defer a.grant.mu.Unlock()
	if a.grant.ticket != nil {
		a.grant.ticket.Begin(a.sentAt)
	}
	a.proposeTo(&a.calls, a.proposal.Begin())
}

// proposeTo submits the acquisition to some nodes, until the attempt is decided. Each node is asked
// by itself: its ticket must not be stamped if it is not asked. Requires a.grant.mu.
func (a *attempt) proposeTo(calls *dispatch.Calls, nodes decision.Set) {
	g := a.grant
	op := g.operation(wire.Acquire)
	op.TTL = g.spec.firstTTL()
	op.Token, op.Reserve = a.proposal.Token, a.proposal.End-a.proposal.Token
	op.Floor = a.proposal.ReadToken
	op.Fair = g.ticket == nil && !g.spec.Spins
	calls.Aim(g.engine.Nodes.Len(), op)
	for i := range nodes.All() {
		c := calls.To(i)
		c.To, c.Deadline = a, g.engine.deadline(g.spec, a.sentAt)
		if a.trace != nil {
			a.trace.Asked()
		}
		if g.ticket != nil {
			op := calls.Op
			g.ticket.Stamp(&op, i)
			c.Op = &op
		}
		if err := g.engine.Nodes.Submit(i, c); err != nil {
			a.countVote(i, 0, a.proposal.Token, &wire.Reply{Err: err, Unsent: true})
		} else {
			a.proposal.Sent(i)
		}
		if a.proposal.Decided() {
			return
		}
	}
}

// Answer counts a node's vote on the acquisition.
func (a *attempt) Answer(c *dispatch.Call, r *wire.Reply) {
	g := a.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	i := c.Node()
	a.proposal.Answered(i)
	a.countVote(i, c.Sent, c.Op.Token, r)
	switch {
	case g.state == stateHeld:
		g.dropProposal()
		g.applyLateVote()
	case g.state == stateAcquiring && a.proposal.NeedsHigherToken() && g.spec.Reads:
		a.proposeTo(a.nextCalls(), a.proposal.WriteBack())
	case g.state == stateAcquiring && a.proposal.NeedsHigherToken():
		a.proposeHigher()
	case g.state == stateEnded && g.lease == nil && a.proposal.Exposed.Has(i):
		// The undo goes to the front: the same waiter may have queued another attempt since. Nothing of this owner
		// must follow it.
		a.withdrawFrom(i)
		a.rollBackOn(decision.Set(0).With(i), true)
	}
}

// nextCalls returns room for the calls of a later fan-out. Requires a.grant.mu.
func (a *attempt) nextCalls() *dispatch.Calls {
	calls := &dispatch.Calls{}
	a.more = append(a.more, calls)
	return calls
}

// countVote counts a node's answer to the acquisition with this token. Requires a.grant.mu.
func (a *attempt) countVote(i int, sent time.Duration, token uint64, r *wire.Reply) {
	g := a.grant
	r = a.plausible(i, token, r)
	v := g.recordReply(wire.Acquire, i, sent, g.spec.firstTTL(), r)
	if v == decision.Denied {
		g.refusals.get(i).acquires = true
	}
	g.reportVote(a.trace, wire.Acquire, i, sent, r, v)
	answer := answerOf(token, r)
	answer.Vote = v
	a.proposal.Answer(i, answer)
	if g.spec.Slots != nil {
		g.spec.Slots.Learn(i, g.spec.Names, r)
	}
	if g.ticket != nil {
		var now time.Duration
		if r.Outcome == wire.Denied {
			now = g.engine.Clock.Now()
		}
		g.ticket.Voted(i, now, r)
	}
	if !a.isDecided && a.proposal.Decided() {
		a.isDecided = true
		close(a.decided)
	}
}

// answerOf converts a reply to an acquisition, except for the vote.
func answerOf(token uint64, r *wire.Reply) decision.Answer {
	a := decision.Answer{Proposed: token, Fence: max(r.Token, r.Holder.Token), Unsent: notRun(r), Repeated: r.Repeated}
	if r.Outcome == wire.Granted {
		a.Known = r.Token
	}
	return a
}

// notRun reports whether the operation certainly changed nothing on the node.
func notRun(r *wire.Reply) bool {
	if r.Err == nil || r.Unsent || r.Repeated {
		return r.Unsent
	}
	var refused *node.Error
	return errors.As(r.Err, &refused) && errors.Is(refused.Reason, node.ErrAuth) && wire.RefusesCommand(refused.Err)
}

// plausible returns the reply, or an error in its place if no sound node could give that reply.
func (a *attempt) plausible(i int, token uint64, r *wire.Reply) *wire.Reply {
	g := a.grant
	name := g.engine.Nodes.Name(i)
	switch {
	case a.proposal.Implausible(answerOf(token, r), uint64(g.engine.Limits.Recovery().Microseconds())):
		ahead := time.Duration(min(max(r.Token, token)-token, uint64(decision.Never/time.Microsecond))) * time.Microsecond
		return &wire.Reply{Err: &node.Error{Node: name, Op: wire.Acquire.String(), Reason: node.ErrClock, Err: errImplausible(ahead)}}
	case g.spec.Reads && r.Outcome == wire.Granted && r.Token == 0:
		return &wire.Reply{Err: &node.Error{Node: name, Op: wire.Acquire.String(), Reason: node.ErrProtocol, Err: errNoFence}}
	default:
		return r
	}
}

// errNoFence means that a node granted a reader without a fencing token, which readers need.
var errNoFence = errors.New("granted a reader the lock without a fencing token")

// errImplausible is how far the token of a node is ahead of ours: further than a sound node accepts.
type errImplausible time.Duration

func (e errImplausible) Error() string {
	return fmt.Sprintf("reported an implausible fencing token, %v ahead of the proposed one", time.Duration(e))
}

// proposeHigher proposes a token that enough nodes should take, by the fences that they reported.
// Requires a.grant.mu.
//
// Owners of other names that share the place may raise the fence again while this proposal is under
// way. So from the third proposal on, there is a margin: see [TokenClock.margin].
func (a *attempt) proposeHigher() {
	g, tokens, rounds := a.grant, &a.grant.engine.Tokens, a.proposal.Rounds()
	now := g.engine.Clock.Now()
	a.proposal.Raise(func(above uint64) uint64 {
		tokens.Follow(above)
		if rounds > 1 {
			above += uint64(tokens.margin(now-a.roundAt, now-a.sentAt).Microseconds())
		}
		return tokens.Propose(g.spec.Names, above)
	})
	a.roundAt = now
	a.proposeTo(a.nextCalls(), a.proposal.Begin())
}

// becomeHeld turns a won attempt into a lease. It reports false if, at this instant, too few nodes
// have a claim that is still valid and took the token.
func (a *attempt) becomeHeld() bool {
	g := a.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	if !a.proposal.Win(&g.claims, now) {
		return false
	}
	g.state = stateHeld
	g.validUntil = g.claims.ValidUntil(g.spec.Need)
	g.engine.Tokens.Observe(a.proposal.End, g.spec.Names...)
	g.firstLease.start(g, g.spec, a.proposal.Token, now)
	if !g.spec.Fixed {
		g.nextRenewalAt = g.nextRenewal(a.sentAt)
	}
	if !g.engine.scheduler.schedule(g, g.nextDue(), false) {
		g.lease = nil
		return false
	}
	g.engine.Locals.OnTaken(g)
	g.dropProposal()
	return true
}

// rollBack ends an attempt that was lost, or whose caller has given up. Each node that may have
// granted it undoes it, after its answer. A node that denied has nothing to undo. The next attempt
// uses the fences that this one learned.
//
// If the caller gave up, a node that has not been sent the acquisition is never sent it. A caller that goes on
// needs the denials that are to come: they put its waiter into the queues of the nodes.
func (a *attempt) rollBack(gaveUp bool) {
	g := a.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = stateEnded
	if gaveUp {
		asked := a.proposal.Unanswered
		if len(a.more) > 0 { // an answer to an earlier fan-out says nothing about the last one
			asked = g.engine.Nodes.All()
		}
		for i := range asked.All() {
			a.withdrawFrom(i)
		}
	}
	if g.refusals.tokenTooFar() {
		g.engine.Tokens.Unfollow()
	}
	g.engine.Tokens.Observe(a.proposal.FenceToBeat(), g.spec.Names...)
	if answered := a.proposal.Exposed &^ a.proposal.Unanswered; answered != 0 {
		a.rollBackOn(answered, false)
	}
	g.spec.returnSlots(false)
}

// withdrawFrom takes back the acquisitions that are queued for node i. Requires a.grant.mu.
func (a *attempt) withdrawFrom(i int) {
	g := a.grant
	for _, calls := range append(a.more, &a.calls) {
		if !g.engine.Nodes.Withdraw(i, calls.To(i)) {
			continue
		}
		never := a.proposal.Withdrawn(i)
		if g.ticket != nil {
			g.ticket.Withdrawn(i, never)
		}
		err := &node.Error{Node: g.engine.Nodes.Name(i), Op: wire.Acquire.String(), Reason: node.ErrBusy, Err: errGivenUp}
		g.reportVote(a.trace, wire.Acquire, i, 0, &wire.Reply{Err: err, Unsent: true}, decision.Unknown)
	}
}

// errGivenUp is why a node was not asked.
var errGivenUp = errors.New("the caller gave up before the operation was sent")

// rollBackOn undoes the attempt on some nodes. With front, the undo goes ahead of operations that
// were queued later. Requires a.grant.mu.
func (a *attempt) rollBackOn(nodes decision.Set, front bool) {
	g := a.grant
	now := g.engine.Clock.Now()
	calls := dispatch.NewCalls(g.engine.Nodes.Len(), g.releaseOp())
	for i := range nodes.All() {
		calls.To(i).Front = front
		if g.ticket != nil && a.proposal.Votes().Vote(i) == decision.Granted {
			g.ticket.Freed(i, now, front)
		}
	}
	g.undo(calls, nodes, now, dispatch.Ignore)
}

// cutShortError counts the votes that had arrived when the context ended.
func (a *attempt) cutShortError() error {
	g := a.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	return &pair{g.engine.Errors.NoQuorum(g.shortage("acquire", a.proposal.Taken())), ": ", ErrCutShort}
}

// lossError returns why the attempt was lost, and what to expect of another.
func (a *attempt) lossError() (Retry, error) {
	g := a.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes, holders := g.refusals.denials()
	again := Retry{Useful: !a.permanentlyRefused(), TokenRejected: g.refusals.tokenTooFar(), FreeAfter: freeAfter(holders, g.claims.Nodes(), g.spec.Need)}
	votes := a.proposal.Votes()
	if votes.Result() == decision.Lost && votes.Denied() > 0 && votes.Unknown() <= g.claims.Nodes()-g.spec.Need {
		// Enough nodes answered, so the holder is the obstacle.
		holder := mostNamed(holders)
		// If the lock is free but reserved, no other slots help.
		again.OtherSlots = g.spec.Slots != nil && (holder.Owner != "" || holder.TTL <= 0) && g.spec.Slots.Promising(g.spec.Need)
		return again, g.heldBy(holder, nodes)
	}
	short := g.shortage("acquire", a.proposal.Taken())
	short.Late = a.proposal.Taken().Result() == decision.Won
	for i := range g.engine.Nodes.Len() {
		if a.proposal.Taken().Vote(i) == decision.Denied {
			short.Nodes = append(short.Nodes, g.rejection(i, wire.Acquire, errTokenNotTaken))
		}
	}
	return again, g.engine.Errors.NoQuorum(short)
}

// errTokenNotTaken explains why the grant of a node did not count.
var errTokenNotTaken = errors.New("granted, but rejected our fencing token as too small")

// permanentlyRefused reports whether too many nodes reject the call for good: then no attempt can
// succeed.
func (a *attempt) permanentlyRefused() bool {
	g := a.grant
	permanent := 0
	for _, r := range g.refusals.all() {
		var nodeErr *node.Error
		if !errors.As(r.Err, &nodeErr) {
			continue
		}
		// The end of a token block lies ahead of the clock, so a clock error about it proves
		// nothing.
		timely := a.proposal.End == a.proposal.Token && g.engine.Tokens.IsCurrent(a.proposal.Token)
		if nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && timely { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > g.claims.Nodes()-g.spec.Need
}
