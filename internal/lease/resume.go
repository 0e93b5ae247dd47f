package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// ErrOtherToken means that the owner holds the lock with another token than the one to resume. No error of a
// single node is one.
var ErrOtherToken = errors.New("the lease to resume has another token")

// opResume names the operation in the errors of a resumption.
const opResume = "resume"

// Resume takes over the lease of an owner from another process. It asks every node once to extend what the
// owner holds there. The lease is valid if need nodes prove that the owner has held the names without a
// break. The nodes keep the longer TTL even if Resume fails: the owner may hold it elsewhere.
func (e *Engine) Resume(ctx context.Context, s *Spec, owner string, token uint64) (*Lease, error) {
	r := newResumption(e, s, owner, token)
	r.start()
	select {
	case <-r.decided:
		return r.conclude()
	case <-ctx.Done():
		return nil, r.giveUp(ContextError(ctx))
	case <-e.Closing:
		return nil, r.giveUp(ErrClosed)
	}
}

// resumption is the round that takes over a lease. The mutex of its grant guards its fields.
type resumption struct {
	grant *Grant
	tally quorum.Tally
	// otherToken counts the nodes on which the owner has another token. A valid lease may have some: they have an
	// earlier proposal of its acquisition, if the last one did not reach them.
	otherToken int
	// decided is closed when the round is won, or no answer can change its outcome.
	decided chan struct{}
	calls   dispatch.Calls
}

func newResumption(e *Engine, s *Spec, owner string, token uint64) *resumption {
	g := newGrant(e, s, nil)
	g.owner, g.resumed, g.tokenEnd = owner, true, token
	return &resumption{grant: g, tally: quorum.NewTally(e.Nodes.Len(), s.Need), decided: make(chan struct{})}
}

// start asks all nodes.
func (r *resumption) start() {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	n, now := g.engine.Nodes.Len(), g.engine.Clock.Now()
	r.calls.Aim(n, g.operation(node.Resume))
	for i := range n {
		r.calls.To(i).To, r.calls.To(i).Deadline = r, g.engine.deadline(g.spec, now)
	}
	g.engine.Nodes.Send(&r.calls, g.engine.Nodes.All(), func(i int, err error) bool {
		r.countVote(r.calls.To(i), &node.Reply{Err: err, Unsent: true})
		return true
	})
	g.expose(g.engine.Nodes.All()) // a node that is not asked may have the lock too, from the former holder
}

// Answer counts a node's answer. An answer after the end of the round extends a lease that it has won.
func (r *resumption) Answer(c *dispatch.Call, reply *node.Reply) {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case stateAcquiring:
		r.countVote(c, reply)
	case stateHeld:
		reply = r.proof(c.Node(), reply)
		v := g.recordReply(c.Node(), c.Sent, g.spec.TTL, reply)
		r.tally.Record(c.Node(), v)
		g.reportVote(nil, node.Resume, c.Node(), c.Sent, reply, v)
		if r.tally.Missing() > 0 { // until all have answered, a small backing is normal
			g.extendValidity(g.engine.Clock.Now())
			return
		}
		g.applyLateVote()
	default: // the caller has its answer
	}
}

// countVote counts a vote. Requires r.grant.mu.
func (r *resumption) countVote(c *dispatch.Call, reply *node.Reply) {
	g, before := r.grant, r.isDecided()
	reply = r.proof(c.Node(), reply)
	v := g.recordReply(c.Node(), c.Sent, g.spec.TTL, reply)
	switch {
	case errors.Is(reply.Err, errNotHeld):
		v = quorum.Denied
	case errors.Is(reply.Err, errOtherToken):
		r.otherToken++ // no denial: the owner has the lock there
	}
	r.tally.Record(c.Node(), v)
	g.reportVote(nil, node.Resume, c.Node(), c.Sent, reply, v)
	if !before && r.isDecided() {
		close(r.decided)
	}
}

// The reasons of nodes that answered, but did not prove the lease.
var (
	errNotHeld    = errors.New("the owner does not hold the lock there")
	errOtherToken = errors.New("the owner holds the lock with another token")
	errUnproven   = errors.New("the node has the lock, but cannot prove that the owner held it all the time: a late operation put it back, or the node has restarted since")
)

// proof returns the answer of node i, or an error in its place if the answer is no proof.
func (r *resumption) proof(i int, reply *node.Reply) *node.Reply {
	g := r.grant
	why := errNotHeld
	switch own := reply.Outcome == node.Denied && reply.Holder.Owner == g.owner; {
	case own && reply.Holder.Token != g.tokenEnd:
		why = fmt.Errorf("%w: %d", errOtherToken, reply.Holder.Token)
	case own:
		why = errUnproven
	case reply.Outcome != node.Absent:
		return reply
	}
	return &node.Reply{Err: g.rejection(i, node.Resume, why).Err}
}

// isDecided reports whether the round is won, or no further answer can change its error. Requires r.grant.mu.
func (r *resumption) isDecided() bool {
	return r.tally.Result() == quorum.Won || r.tally.Missing() == 0
}

// conclude makes the lease of a round that is won.
func (r *resumption) conclude() (*Lease, error) {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	g.validUntil = g.claims.ValidUntil(g.spec.Need)
	late := now >= g.validUntil
	if r.tally.Result() != quorum.Won || late {
		g.state = stateEnded
		return nil, r.failure(late)
	}
	g.state = stateHeld
	g.engine.Tokens.Observe(g.tokenEnd, g.spec.Names...)
	g.firstLease.start(g, g.spec, g.tokenEnd, now)
	if !g.engine.scheduler.schedule(g, g.nextDue()) {
		g.state, g.lease = stateEnded, nil
		return nil, ErrClosed
	}
	g.engine.locals.OnTaken(g)
	return &g.firstLease, nil
}

// failure returns why the round is lost. late is set if its claims are over. Requires r.grant.mu.
func (r *resumption) failure(late bool) error {
	g := r.grant
	votes := renewalRound{grant: g, tally: r.tally}
	switch over := votes.evicted(); {
	case over != nil:
		return over
	case r.otherToken > r.tally.Nodes()-r.tally.Need(): // too many for a quorum to have taken this one
		return ErrOtherToken
	case r.tally.Blocked():
		return g.loss(Gone, "its owner does not hold the lock on enough nodes: it expired or was released")
	default:
		short := g.shortage(opResume, &r.tally)
		short.Late = late && r.tally.Result() == quorum.Won
		return g.engine.Errors.NoQuorum(short)
	}
}

// giveUp ends the round for a caller that waits no more.
func (r *resumption) giveUp(why error) error {
	g := r.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = stateEnded
	return GaveUp(g.engine.Errors.NoQuorum(g.shortage(opResume, &r.tally)), why)
}
