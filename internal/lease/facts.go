package lease

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// The ends of leases, and two kinds of errors. The public package has them under the same names.
var (
	ErrReleased  = errors.New("quorumlock: lease released")
	ErrHoldLimit = errors.New("quorumlock: lease reached its hold limit")
	ErrLeaked    = errors.New("quorumlock: lease leaked")
	ErrClosed    = errors.New("quorumlock: client closed")
	ErrShared    = errors.New("quorumlock: the lease is nested, or others are nested in it; release those first")
	// ErrHeld matches the errors of [Errors.Held], and ErrLost the errors of [Errors.Lost].
	ErrHeld = errors.New("quorumlock: held by another")
	ErrLost = errors.New("quorumlock: lease lost")
	// ErrCutShort marks the error of an attempt whose context ended before the votes decided.
	ErrCutShort = errors.New("the call ended before enough nodes answered")
)

// Errors makes the errors that callers see of facts. The errors of Held must match ErrHeld, and the
// errors of Lost ErrLost. The methods may be called with a mutex held.
type Errors interface {
	NoQuorum(Shortage) error
	// TooManyPermits is the error of a call that asks for more permits than there are.
	TooManyPermits(asked, size int) error
	Held(Holder) error
	Lost(Loss) error
}

// Holder is an owner that keeps others from a lock.
type Holder struct {
	// Name is the name of the lock. Owner is empty if the lock is free but reserved.
	Name, Owner string
	// TTL is how long it stays so unless it is renewed. It is negative without expiry.
	TTL time.Duration
	// Permits is set for a semaphore.
	Permits bool
	// Nodes are the names of the nodes that denied the attempt.
	Nodes []string
}

// NodeError is why a node did not confirm.
type NodeError struct {
	Node string
	Err  error
}

// Shortage says that too few nodes agreed to an operation.
type Shortage struct {
	Op   string
	Spec *Spec
	// Need of Total nodes had to agree. Agreed had, and Pending had not answered.
	Need, Agreed, Total, Pending int
	// Late is set if enough nodes agreed, but after the TTL had passed.
	Late  bool
	Nodes []NodeError
}

// Cause says in one word why a lease was lost.
type Cause string

// The causes of a loss. The public package has the same words.
const (
	Unconfirmed Cause = "unconfirmed"
	Expired     Cause = "expired"
	Forced      Cause = "forced"
	Taken       Cause = "taken"
	Gone        Cause = "gone"
)

// Loss says why a lease ended early.
type Loss struct {
	Spec  *Spec
	Owner string
	Cause Cause
	// Reason is the cause in a sentence; empty for Taken.
	Reason string
	// TakenBy is, for Taken, the owner that has the lock now.
	TakenBy string
	// Paused is how long this process did not run, at least, if that explains the loss; otherwise 0.
	Paused time.Duration
	Nodes  []NodeError
}

// Events are told what happens to grants and leases. Most methods are called with the mutex of the
// grant held. They must not block, and of the grant and the lease they may call only methods that
// take no mutex: Owner, Spec, Token.
type Events interface {
	// Voted says how a node voted on an acquisition or a renewal. It is called only if
	// Env.ReportVotes is set.
	Voted(g *Grant, v Vote)
	// Renewed says that a quorum confirmed a renewal, RenewalFailed that none did.
	Renewed(g *Grant, remaining time.Duration)
	RenewalFailed(g *Grant, remaining time.Duration, err error)
	// BackingChanged says that have of want nodes back the lease now. It is called only if
	// Env.ReportBacking is set.
	BackingChanged(g *Grant, have, want int)
	// Ended says that a lease has ended, and how long it was held.
	Ended(l *Lease, held time.Duration, handedOver bool, cause error)
	// LossFound says that a lease had been lost before its release.
	LossFound(l *Lease, err error)
}

// Vote is the vote of a node on an acquisition or a renewal.
type Vote struct {
	Node string
	Op   wire.Kind
	Vote decision.Vote
	// Unsent is set if the node was not asked.
	Unsent bool
	// At is when the vote was counted, by the wall clock. Took is the time since the operation was
	// sent.
	At   time.Time
	Took time.Duration
	// Err is why the vote is not a grant.
	Err error
}

// Trace follows one call that acquires. Its methods are called with the mutex of a grant held.
type Trace interface {
	// Asked says that a node is asked to vote, Voted how it voted.
	Asked()
	Voted(g *Grant, v Vote)
}

// errForcedOff means that a node has a tombstone for this owner.
var errForcedOff = errors.New("released by force")

// replyError returns the reason in a node's answer, or nil for a confirmation.
func (g *Grant) replyError(r *refusal) error {
	switch {
	case isTombstone(r):
		return errForcedOff
	case r.Outcome == wire.Denied:
		return g.engine.Errors.Held(Holder{Name: g.spec.DisplayName(r.Holder.Name), Owner: r.Holder.Owner, TTL: r.Holder.TTL})
	default:
		return r.Err
	}
}

// isTombstone reports whether the answer shows a tombstone of this owner. In the denial of an acquisition, no
// owner means that the lock is free but reserved.
func isTombstone(r *refusal) bool {
	return r.Outcome == wire.Denied && r.Holder.Owner == "" && !r.acquires
}

// nodeErrors returns the last error of each node that did not confirm. Requires g.mu.
func (g *Grant) nodeErrors() []NodeError {
	var errs []NodeError
	for i, r := range g.refusals.all() {
		if err := g.replyError(r); err != nil {
			errs = append(errs, NodeError{g.engine.Nodes.Name(i), err})
		}
	}
	return errs
}

// shortage returns the fact that a round of this owner has no quorum. Requires g.mu.
func (g *Grant) shortage(op string, t *decision.Tally) Shortage {
	return Shortage{
		Op: op, Spec: g.spec, Need: t.Need(), Agreed: t.Granted(), Total: t.Nodes(), Pending: t.Missing(),
		Nodes: g.nodeErrors(),
	}
}

// loss returns the error for a lost lease, with the last errors of the nodes. Requires g.mu.
func (g *Grant) loss(cause Cause, reason string) error {
	return g.engine.Errors.Lost(Loss{Spec: g.spec, Owner: g.owner, Cause: cause, Reason: reason, Nodes: g.nodeErrors()})
}

// expired returns the error for a lease whose time is over. Requires g.mu.
func (g *Grant) expired(reason string) error {
	if g.spec.Fixed {
		return g.loss(Expired, reason)
	}
	paused := g.engine.scheduler.pausedFor(g.engine.Clock.Now(), g.spec.TTL)
	return g.engine.Errors.Lost(Loss{Spec: g.spec, Owner: g.owner, Cause: Unconfirmed, Reason: reason, Paused: paused, Nodes: g.nodeErrors()})
}

// refused returns the error for a lease of a client whose list of nodes is refused.
func (g *Grant) refused(why *node.Error) error {
	return g.engine.Errors.Lost(Loss{
		Spec: g.spec, Owner: g.owner, Cause: Unconfirmed, Reason: "renewals are refused", Nodes: []NodeError{{why.Node, why}},
	})
}

// reportVote tells the hooks and the trace, which may be nil, how a node voted. Requires g.mu.
func (g *Grant) reportVote(trace Trace, kind wire.Kind, i int, sent time.Duration, r *wire.Reply, v decision.Vote) {
	if trace == nil && !g.engine.ReportVotes {
		return
	}
	e := Vote{
		Node: g.engine.Nodes.Name(i), Op: kind, Vote: v, Unsent: r.Unsent, At: g.engine.Clock.Wall(),
		Err: g.denialError(kind, i, r, v),
	}
	if !r.Unsent {
		e.Took = g.engine.Clock.Now() - sent
	}
	if g.engine.ReportVotes {
		g.engine.Events.Voted(g, e)
	}
	if trace != nil {
		trace.Voted(g, e)
	}
}

// denialError returns why a node did not grant. Requires g.mu.
func (g *Grant) denialError(kind wire.Kind, i int, r *wire.Reply, v decision.Vote) error {
	switch {
	case v == decision.Granted:
		return nil
	case kind == wire.Acquire && r.Outcome == wire.Denied:
		return g.engine.Errors.Held(Holder{Name: g.spec.DisplayName(r.Holder.Name), Owner: r.Holder.Owner, TTL: r.Holder.TTL})
	case r.Err != nil:
		return r.Err
	default:
		return g.replyError(g.refusals.get(i))
	}
}
