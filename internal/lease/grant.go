package lease

import (
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// grantState is where a grant is in its life. It only moves forward.
type grantState uint8

const (
	// stateAcquiring: the attempt is under way.
	stateAcquiring grantState = iota
	// stateHeld: the attempt was won.
	stateHeld
	// stateEnded: lost, released, or never won. The nodes are being told to undo it.
	stateEnded
)

// Grant is one owner on the nodes: an attempt, and the leases that follow if the attempt is won.
// Nested leases share the grant, and a hand-over gives it to the next holder.
//
// mu guards the fields below it.
type Grant struct {
	engine *Engine
	spec   *Spec
	owner  string
	// ticket is the ticket of the waiter that acquires, or nil.
	ticket Ticket
	// due is for the scheduler, whose mutex guards it.
	due due

	mu sync.Mutex

	state grantState
	// reads is set while the owner is a reader.
	reads bool
	// reportedBacking is the number of nodes that the hook BackingChanged was told last.
	reportedBacking uint8
	// failedRenewals counts the renewal rounds that failed in a row.
	failedRenewals int32
	claims         decision.Claims
	refusals       refusals
	// validUntil is the end of the lease by local time, as the nodes have confirmed it.
	validUntil    time.Duration
	nextRenewalAt time.Duration
	// proposal has the votes on the acquisition, while a node may still vote. Then the next two fields have its
	// results: tokenEnd is the largest token that the owner may ever use, and exposed are the nodes
	// that may have something of the owner. See endOfTokens and exposedNodes.
	proposal *decision.Proposal
	tokenEnd uint64
	exposed  decision.Set
	// lease is the current lease, or the last one: firstLease, unless the grant was handed over.
	lease      *Lease
	firstLease Lease
}

func newGrant(e *Engine, s *Spec, t Ticket) *Grant {
	n := e.Nodes.Len()
	return &Grant{
		engine:          e,
		spec:            s,
		owner:           e.NextID(s.Label),
		ticket:          t,
		due:             due{need: uint8(s.Need), index: -1}, //nolint:gosec // of at most quorum.MaxNodes
		nextRenewalAt:   decision.Never,
		reportedBacking: uint8(n), //nolint:gosec // of at most quorum.MaxNodes
		reads:           s.Reads,
		claims:          decision.NewClaims(n),
	}
}

// dropProposal forgets the attempt of a held grant once all nodes have voted. The waiter for permits
// needs the votes; see WithVotes. Requires g.mu.
func (g *Grant) dropProposal() {
	if p := g.proposal; p != nil && p.Unanswered == 0 && g.spec.Slots == nil {
		g.tokenEnd, g.exposed, g.proposal = p.End, p.Exposed, nil
	}
}

// endOfTokens returns the largest token that the owner may ever use. Requires g.mu, or that the
// lease has ended: neither field changes after that.
func (g *Grant) endOfTokens() uint64 {
	if g.proposal != nil {
		return g.proposal.End
	}
	return g.tokenEnd
}

// exposedNodes returns the nodes that may have something of this owner: a release must reach them.
// Requires g.mu.
func (g *Grant) exposedNodes() decision.Set {
	if g.proposal != nil {
		return g.proposal.Exposed
	}
	return g.exposed
}

// expose records that renewals of this owner are in flight to these nodes. Requires g.mu.
func (g *Grant) expose(nodes decision.Set) {
	if g.proposal != nil {
		g.proposal.Renews(nodes)
		return
	}
	g.exposed |= nodes
}

// Spec returns the spec of the attempt.
func (g *Grant) Spec() *Spec { return g.spec }

// Owner returns the owner id on the nodes.
func (g *Grant) Owner() string { return g.owner }

// GrantedAt returns when the attempt was won.
func (g *Grant) GrantedAt() time.Duration { return g.firstLease.grantedAt }

// Ticket returns the ticket of the waiter that acquired, or nil.
func (g *Grant) Ticket() Ticket { return g.ticket }

// Obstacle returns the error for a local waiter whose own client holds the lock.
func (g *Grant) Obstacle() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.heldBy(wire.Holder{Name: g.spec.Names[0], Owner: g.owner, TTL: max(0, g.validUntil-g.engine.Clock.Now())}, nil)
}

// WithVotes calls look with the votes on the acquisition of permits, and keeps late votes out
// meanwhile.
func (g *Grant) WithVotes(look func(votes *decision.Tally)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	look(g.proposal.Votes())
}

// operation returns an operation of this owner. Its token is the largest that the owner may ever
// use.
func (g *Grant) operation(kind wire.Kind) wire.Op {
	op := wire.Op{
		Kind:   kind,
		Names:  g.spec.Names,
		Owner:  g.owner,
		TTL:    g.spec.TTL,
		Token:  g.endOfTokens(),
		Reads:  g.reads,
		Limits: g.engine.Limits,
		Pool:   g.spec.Slots.OnNodes(),
	}
	if kind == wire.Renew && g.reads && !g.spec.Reads && g.ticket != nil {
		op.Waiter = g.ticket.Leaver() // a writer that became a reader must not block readers with its entry
	}
	return op
}

// recordReply records a node's answer to an operation of this kind and TTL, and returns the vote that it
// counts as. Requires g.mu.
func (g *Grant) recordReply(kind wire.Kind, i int, sent, ttl time.Duration, r *wire.Reply) decision.Vote {
	switch r.Outcome {
	case wire.Granted, wire.Healed:
		recovering := r.Recovering > 0
		var now time.Duration
		if recovering {
			now = g.engine.Clock.Now()
		}
		if !g.claims.Confirm(i, sent, ttl, now, recovering) {
			g.refusals.set(i, &wire.Reply{Err: &node.Error{
				Node: g.engine.Nodes.Name(i), Op: kind.String(), Reason: node.ErrRecovering, Err: errUncounted,
			}})
			return decision.Unknown
		}
		g.refusals.clear(i)
		return decision.Granted
	case wire.Denied:
		g.claims.Drop(i)
		g.refusals.set(i, r)
		return decision.Denied
	default:
		g.refusals.set(i, r)
		return decision.Unknown
	}
}

// errUncounted explains why a confirmation of a node that recovers did not count.
var errUncounted = errors.New("has the lock: its vote counts from the first renewal after the recovery")

// minGain bounds the work for late votes: a vote that extends a lease by less is ignored, to save a
// clock read.
const minGain = time.Millisecond

// applyLateVote lets a vote that does not decide a round extend a held lease. Requires g.mu.
func (g *Grant) applyLateVote() {
	gain := g.claims.ValidUntil(g.spec.Need) - g.validUntil
	if gain < minGain && !g.engine.ReportBacking {
		return
	}
	now := g.engine.Clock.Now()
	g.extendValidity(now)
	g.reportBacking(now)
}

// extendValidity advances validUntil as the claims allow. Nothing revives a lease after its end.
// Requires g.mu.
func (g *Grant) extendValidity(now time.Duration) {
	if now < g.validUntil {
		g.validUntil = max(g.validUntil, g.claims.ValidUntil(g.spec.Need))
	}
}

// nextDue returns when the scheduler must look at a held lease next.
func (g *Grant) nextDue() time.Duration { return min(g.nextRenewalAt, g.dueWithoutRenewal()) }

// dueWithoutRenewal is nextDue for a renewal that waits for capacity.
func (g *Grant) dueWithoutRenewal() time.Duration {
	due := min(g.validUntil, g.lease.holdLimit())
	if g.engine.ReportBacking { // only that hook needs to know when a claim expires
		due = min(due, g.claims.NextLapse(g.engine.Clock.Now()))
	}
	return due
}

// reportBacking tells the hook when the number of nodes that back a held lease has changed. It
// waits until all votes of the attempt have arrived: until then a small number is normal. Requires
// g.mu.
func (g *Grant) reportBacking(now time.Duration) {
	if !g.engine.ReportBacking || g.state != stateHeld || g.proposal != nil && g.proposal.Votes().Missing() > 0 {
		return
	}
	have := g.claims.Backing(now)
	if have == int(g.reportedBacking) {
		return
	}
	g.reportedBacking = uint8(have) //nolint:gosec // of at most quorum.MaxNodes
	g.engine.Events.BackingChanged(g, have, g.claims.Nodes())
}

// errForcedOff means that a node has a tombstone for this owner.
var errForcedOff = errors.New("released by force")

// replyError returns the reason in a node's answer, or nil for a confirmation.
func (g *Grant) replyError(r *refusal) error {
	switch {
	case r.isTombstone():
		return errForcedOff
	case r.Outcome == wire.Denied:
		return g.namedBy(r.Holder)
	default:
		return r.Err
	}
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
		return g.namedBy(r.Holder)
	case r.Err != nil:
		return r.Err
	default:
		return g.replyError(g.refusals.get(i))
	}
}

// heldBy returns the error that names the holder of one of the names, and the nodes that denied.
func (g *Grant) heldBy(h wire.Holder, nodes []int) error {
	return g.engine.heldBy(g.spec, h, nodes)
}

// namedBy is heldBy for the answer of one node, which keeps this owner from a name that is its own.
func (g *Grant) namedBy(h wire.Holder) error {
	return g.engine.Errors.Held(Holder{Name: g.spec.DisplayName(h.Name), Owner: h.Owner, TTL: h.TTL})
}

// rejection is the error of a node whose answer does not count.
func (g *Grant) rejection(i int, kind wire.Kind, why error) NodeError {
	name := g.engine.Nodes.Name(i)
	return NodeError{name, &node.Error{Node: name, Op: kind.String(), Reason: node.ErrRejected, Err: why}}
}

// isFollowedBy reports whether the holder on a node came after this owner: its token is then
// larger. A former holder, restored by a late renewal, came before. Readers stand as one in a
// denial, which then names no single owner.
func (g *Grant) isFollowedBy(other *wire.Holder) bool {
	return other.Owner != g.owner && other.Owner != wire.Readers && other.Token > g.endOfTokens()
}
