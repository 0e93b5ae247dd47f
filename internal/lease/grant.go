package lease

import (
	"errors"
	"iter"
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
// mu guards the fields below it, except the fields of the scheduler.
type Grant struct {
	engine *Engine
	spec   *Spec
	owner  string
	// ticket is the ticket of the waiter that acquires, or nil.
	ticket Ticket

	mu sync.Mutex

	// scheduler.mu guards the next three fields.
	dueAt          time.Duration
	heapIndex      int32
	awaitsCapacity bool

	// mu guards the fields below again.
	state grantState
	// reads is set while the owner is a reader.
	reads bool
	// failedRenewals counts the renewal rounds that failed in a row.
	failedRenewals int32
	// reportedBacking is the number of nodes that the hook BackingChanged was told last.
	reportedBacking uint8
	claims          decision.Claims
	refusals        refusals
	// validUntil is the end of the lease by local time, as the nodes have confirmed it.
	validUntil    time.Duration
	nextRenewalAt time.Duration
	// attempt is the acquisition, while a node may still vote. Then the next two fields have its
	// results: tokenEnd is the largest token that the owner may ever use, and exposed are the nodes
	// that may have something of the owner. See endOfTokens and exposedNodes.
	attempt  *attempt
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
		owner:           e.nextOwner(s),
		ticket:          t,
		heapIndex:       -1,
		nextRenewalAt:   Never,
		reportedBacking: uint8(n), //nolint:gosec // of at most quorum.MaxNodes
		reads:           s.Reads,
		claims:          decision.NewClaims(n),
	}
}

// dropAttempt forgets the attempt of a held grant once all nodes have voted. The waiter for permits
// needs the votes; see WithVotes. Requires g.mu.
func (g *Grant) dropAttempt() {
	if a := g.attempt; a != nil && a.proposal.Unanswered() == 0 && g.spec.Slots == nil {
		g.tokenEnd, g.exposed, g.attempt = a.proposal.End(), a.proposal.Exposed(), nil
	}
}

// endOfTokens returns the largest token that the owner may ever use. Requires g.mu, or that the
// lease has ended: neither field changes after that.
func (g *Grant) endOfTokens() uint64 {
	if g.attempt != nil {
		return g.attempt.proposal.End()
	}
	return g.tokenEnd
}

// exposedNodes returns the nodes that may have something of this owner: a release must reach them.
// Requires g.mu.
func (g *Grant) exposedNodes() decision.Set {
	if g.attempt != nil {
		return g.attempt.proposal.Exposed()
	}
	return g.exposed
}

// expose records that renewals of this owner are in flight to these nodes. Requires g.mu.
func (g *Grant) expose(nodes decision.Set) {
	if g.attempt != nil {
		g.attempt.proposal.Renews()
		g.attempt.proposal.Expose(nodes)
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
	return g.heldBy(g.spec.Names[0], g.owner, max(0, g.validUntil-g.engine.Clock.Now()), nil)
}

// WithVotes calls look with the votes on the acquisition of permits, and keeps late votes out
// meanwhile.
func (g *Grant) WithVotes(look func(votes *decision.Tally)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	look(g.attempt.proposal.Votes())
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

// recordReply records a node's answer to an operation with this TTL, and returns the vote that it
// counts as. Requires g.mu.
func (g *Grant) recordReply(i int, sent, ttl time.Duration, r *wire.Reply) decision.Vote {
	switch r.Outcome {
	case wire.Granted, wire.Healed:
		recovering := r.Recovering > 0
		var now time.Duration
		if recovering {
			now = g.engine.Clock.Now()
		}
		if !g.claims.Confirm(i, sent, ttl, now, recovering) {
			g.refusals.set(i, &wire.Reply{Err: &node.Error{
				Node: g.engine.Nodes.Name(i), Op: wire.Renew.String(), Reason: node.ErrRecovering, Err: errHealUncounted,
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

// errHealUncounted explains why a renewal that a node accepted did not count.
var errHealUncounted = errors.New("restored the lock: its vote counts from the first renewal after the recovery")

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
	return min(g.validUntil, g.lease.holdLimit(), g.nextClaimExpiry())
}

// onDue handles a held lease that is due: its end, its hold limit, or a renewal. takes is how long
// a renewal takes if it is sent now, or noCapacity.
func (g *Grant) onDue(takes time.Duration) {
	g.mu.Lock()
	now := g.engine.Clock.Now()
	why := g.reasonToEnd(now, takes)
	over := why != nil && g.endLocked(now, why, nil) // under the same g.mu, so it ends the lease that was checked
	g.mu.Unlock()
	if over {
		g.lease.releaseDependents()
	}
}

// reasonToEnd returns why the lease must end now, or nil. If it need not end, a due renewal is
// sent. Requires g.mu.
func (g *Grant) reasonToEnd(now, takes time.Duration) error {
	refusal := g.engine.Nodes.Refusal()
	switch {
	case g.state != stateHeld:
		return nil
	case g.lease.leaked:
		return ErrLeaked
	case g.lease.reachedLimit(now):
		return ErrHoldLimit
	case refusal != nil:
		return g.refused(refusal)
	case now >= g.validUntil && g.spec.Fixed:
		return g.expired("its TTL expired, and a Fixed lock is not renewed")
	case now >= g.validUntil:
		return g.expired("no quorum of nodes confirmed a renewal in time")
	}
	if !g.renewIfDue(now, takes) {
		return ErrClosed
	}
	return nil
}

// renewIfDue sends a due renewal if there is capacity and it can succeed in time, and schedules the
// next look. It reports false once the client is closed. Requires g.mu.
func (g *Grant) renewIfDue(now, takes time.Duration) bool {
	due := now >= g.nextRenewalAt
	waits := due && takes == noCapacity
	late := due && !waits && takes >= g.validUntil-now
	if due && !waits && !late {
		g.nextRenewalAt = Never
		g.renew(now, nil)
	}
	g.reportBacking(now)
	switch s := &g.engine.scheduler; {
	case waits:
		return s.awaitCapacity(g, g.dueWithoutRenewal())
	case late:
		// It cannot arrive in time, and would delay renewals that can.
		return s.schedule(g, g.dueWithoutRenewal())
	default:
		return s.schedule(g, g.nextDue())
	}
}

// nextClaimExpiry returns when the next claim expires unless it is renewed.
func (g *Grant) nextClaimExpiry() time.Duration {
	if !g.engine.ReportBacking {
		return Never // only the hook needs it
	}
	return g.claims.NextLapse(g.engine.Clock.Now())
}

// reportBacking tells the hook when the number of nodes that back a held lease has changed. It
// waits until all votes of the attempt have arrived: until then a small number is normal. Requires
// g.mu.
func (g *Grant) reportBacking(now time.Duration) {
	if !g.engine.ReportBacking || g.state != stateHeld || g.attempt != nil && g.attempt.proposal.Votes().Missing() > 0 {
		return
	}
	have := g.claims.Backing(now)
	if have == int(g.reportedBacking) {
		return
	}
	g.reportedBacking = uint8(have) //nolint:gosec // of at most quorum.MaxNodes
	g.engine.Events.BackingChanged(g, have, g.claims.Nodes())
}

// refusals lists the last answers of the nodes that did not confirm, ordered by node. Most grants
// have none, and many have one, of a node that is down or slow.
type refusals struct{ first *refusal }

type refusal struct {
	wire.Reply
	// acquires is set for the denial of an acquisition. If it names no owner, the lock is free but reserved.
	acquires bool
	node     int
	next     *refusal
}

// all yields each answer with the index of its node.
func (rs *refusals) all() iter.Seq2[int, *refusal] {
	return func(yield func(int, *refusal) bool) {
		for r := rs.first; r != nil && yield(r.node, r); r = r.next {
		}
	}
}

// get returns the answer of a node, or nil.
func (rs *refusals) get(i int) *refusal {
	if r := *rs.find(i); r != nil && r.node == i {
		return r
	}
	return nil
}

// find returns the link to a node's answer, or the link where it belongs.
func (rs *refusals) find(i int) **refusal {
	p := &rs.first
	for *p != nil && (*p).node < i {
		p = &(*p).next
	}
	return p
}

// set keeps a node's answer.
func (rs *refusals) set(i int, r *wire.Reply) {
	p := rs.find(i)
	if *p == nil || (*p).node != i {
		*p = &refusal{node: i, next: *p}
	}
	(*p).Reply, (*p).acquires = *r, false
}

// clear forgets a node's answer once the node has confirmed.
func (rs *refusals) clear(i int) {
	if p := rs.find(i); *p != nil && (*p).node == i {
		*p = (*p).next
	}
}
