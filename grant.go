package quorumlock

import (
	"errors"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// grantState is where a grant is in its life. It only moves forward.
type grantState uint8

const (
	// stateAcquiring: the attempt is under way.
	stateAcquiring grantState = iota
	// stateHeld: the attempt was won, and the lease is valid.
	stateHeld
	// stateEnded: lost, released, or never won. The nodes are being told to undo it.
	stateEnded
)

// grant is one owner on the nodes: an attempt, and the leases that follow if the attempt is won.
// Nested leases share the grant, and a hand-over gives it to the next holder.
//
// mu guards the fields below it, except the fields of the scheduler.
//
// The lock order of the package is grant, localQueues, inbox.Set, messageRouter, ticket, sender.
// releaseRound and the rounds of package latch come before sender, too. All other mutexes come last.
// docs/architecture.md lists all pairs. No goroutine holds two mutexes of one type, so two grants
// are never locked together. Hooks, callers' functions and operations of nodes never run under a
// mutex.
type grant struct {
	client *Client
	lock   *Lock
	owner  string
	// decided is closed when the attempt is won or lost. It is nil once the grant is held.
	decided chan struct{}

	// ticket is the ticket of the waiter that acquires, or nil.
	ticket *ticket
	// trace records the call that acquires, or is nil.
	trace *trace

	mu sync.Mutex

	// scheduler.mu guards the next three fields.
	dueAt          time.Duration
	heapIndex      int32
	awaitsCapacity bool

	// mu guards the fields below again: state fills the padding of a word.
	state grantState
	// reads is set while the owner is a reader.
	reads bool
	// failedRenewals counts the renewal rounds that failed in a row.
	failedRenewals int32
	// reportedBacking is the number of nodes that the hook BackingChanged was told last.
	reportedBacking uint8
	proposal        quorum.Proposal
	claims          quorum.Claims
	refusals        refusals
	// validUntil is the end of the lease by local time, as the nodes have confirmed it.
	validUntil time.Duration
	// sentAt is when the attempt was sent, grantedAt when it was won.
	sentAt, grantedAt time.Duration
	nextRenewalAt     time.Duration
	// lease is the current lease, or the last one: firstLease, unless the grant was handed over.
	lease      *lease
	firstLease lease
}

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

func newGrant(l *Lock, w *waiter) *grant {
	n := l.client.nodes.Len()
	g := &grant{
		client:          l.client,
		lock:            l,
		owner:           l.nextOwner(),
		decided:         make(chan struct{}),
		heapIndex:       -1,
		nextRenewalAt:   never,
		reportedBacking: uint8(n), //nolint:gosec // of at most quorum.MaxNodes
		reads:           l.shared,
	}
	g.claims = quorum.NewClaims(n)
	token := l.client.tokenClock.propose(l.names, 0)
	end := token
	if w != nil {
		g.ticket = w.ticket
		if !w.noBlock && l.client.queues.hasFollower(w) {
			end += l.blockSize(token)
		}
	}
	g.proposal = quorum.NewProposal(n, l.need, l.shared, token, end)
	return g
}

// operation returns an operation of this owner. Its token is the largest that the owner may ever
// use.
func (g *grant) operation(kind node.Kind) node.Op {
	op := node.Op{
		Kind:   kind,
		Names:  g.lock.names,
		Owner:  g.owner,
		TTL:    g.lock.ttl,
		Token:  g.proposal.End(),
		Reads:  g.reads,
		Limits: g.client.cfg.limits(),
		Pool:   g.lock.slots.OnNodes(),
	}
	if kind == node.Renew && g.reads && !g.lock.shared && g.ticket != nil {
		op.Waiter = g.ticket.asLeaver() // a writer that became a reader must not block readers with its entry
	}
	return op
}

func (g *grant) acquireOp() node.Op {
	op := g.operation(node.Acquire)
	op.Token, op.Reserve = g.proposal.Token(), g.proposal.End()-g.proposal.Token()
	op.Floor = g.proposal.ReadToken()
	op.Fair = g.ticket == nil && g.lock.isFIFO()
	return op
}

// recordReply records a node's answer, and returns the vote that it counts as. Requires g.mu.
func (g *grant) recordReply(i int, sent time.Duration, r *node.Reply) quorum.Vote {
	switch r.Outcome {
	case node.Granted, node.Healed:
		recovering := r.Recovering > 0
		var now time.Duration
		if recovering {
			now = g.client.clock.Now()
		}
		if !g.claims.Confirm(i, sent, g.lock.ttl, now, recovering) {
			g.refusals.set(i, &node.Reply{Err: &node.Error{
				Node: g.client.nodes.Name(i), Op: node.Renew, Reason: node.ErrRecovering, Err: errHealUncounted,
			}})
			return quorum.Unknown
		}
		g.refusals.clear(i)
		return quorum.Granted
	case node.Denied:
		g.claims.Drop(i)
		g.refusals.set(i, r)
		return quorum.Denied
	default:
		g.refusals.set(i, r)
		return quorum.Unknown
	}
}

// errHealUncounted explains why a renewal that a node accepted did not count.
var errHealUncounted = errors.New("restored the lock, which counts from the first renewal after its recovery")

// minGain bounds the work for late votes: a vote that extends a lease by less is ignored, to save a
// clock read.
const minGain = time.Millisecond

// applyLateVote lets a vote that does not decide a round extend a held lease. Requires g.mu.
func (g *grant) applyLateVote() {
	gain := g.claims.ValidUntil(g.lock.need) - g.validUntil
	if gain < minGain && g.client.cfg.Hooks.BackingChanged == nil {
		return
	}
	now := g.client.clock.Now()
	g.extendValidity(now)
	g.reportBacking(now)
}

// extendValidity advances validUntil as the claims allow. Nothing revives a lease after its end.
// Requires g.mu.
func (g *grant) extendValidity(now time.Duration) {
	if now < g.validUntil {
		g.validUntil = max(g.validUntil, g.claims.ValidUntil(g.lock.need))
	}
}

// nextDue returns when the scheduler must look at a held lease next.
func (g *grant) nextDue() time.Duration { return min(g.nextRenewalAt, g.dueWithoutRenewal()) }

// dueWithoutRenewal is nextDue for a renewal that waits for capacity.
func (g *grant) dueWithoutRenewal() time.Duration {
	return min(g.validUntil, g.lease.holdLimit(), g.nextClaimExpiry())
}

// onDue handles a held lease that is due: its end, its hold limit, or a renewal. takes is how long
// a renewal takes if it is sent now, or noCapacity.
func (g *grant) onDue(takes time.Duration) {
	g.mu.Lock()
	now := g.client.clock.Now()
	why := g.reasonToEnd(now, takes)
	over := why != nil && g.endLocked(now, why, nil) // under the same g.mu, so it ends the lease that was checked
	g.mu.Unlock()
	if over {
		g.lease.jointLeases.beginReleases()
	}
}

// reasonToEnd returns why the lease must end now, or nil. If it need not end, a due renewal is
// sent. Requires g.mu.
func (g *grant) reasonToEnd(now, takes time.Duration) error {
	switch {
	case g.state != stateHeld:
		return nil
	case g.lease.leaked:
		return ErrLeaked
	case g.lease.reachedLimit(now):
		return ErrHoldLimit
	case now >= g.validUntil && g.lock.noRenew:
		return g.expiredError("its TTL ran out, and it does not renew")
	case now >= g.validUntil:
		return g.expiredError("no quorum of nodes confirmed a renewal in time")
	}
	if !g.renewIfDue(now, takes) {
		return ErrClosed
	}
	return nil
}

// renewIfDue sends a due renewal if there is capacity and it can succeed in time, and schedules the
// next look. It reports false once the client is closed. Requires g.mu.
func (g *grant) renewIfDue(now, takes time.Duration) bool {
	due := now >= g.nextRenewalAt
	waits := due && takes == noCapacity
	late := due && !waits && takes >= g.validUntil-now
	if due && !waits && !late {
		g.nextRenewalAt = never
		g.renew(now, nil)
	}
	g.reportBacking(now)
	switch s := &g.client.scheduler; {
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
func (g *grant) nextClaimExpiry() time.Duration {
	if g.client.cfg.Hooks.BackingChanged == nil {
		return never // only the hook needs it
	}
	return g.claims.NextLapse(g.client.clock.Now())
}

// reportBacking tells the hook when the number of nodes that back a held lease has changed. It
// waits until all votes of the attempt have arrived: until then a small number is normal. Requires
// g.mu.
func (g *grant) reportBacking(now time.Duration) {
	hook := g.client.cfg.Hooks.BackingChanged
	if hook == nil || g.state != stateHeld || g.proposal.Votes().Missing() > 0 {
		return
	}
	have := g.claims.Backing(now)
	if have == int(g.reportedBacking) {
		return
	}
	g.reportedBacking = uint8(have) //nolint:gosec // of at most quorum.MaxNodes
	report(&g.client.reporter, hook, BackingEvent{
		Names: g.lock.Names(), Owner: g.owner, Have: have, Want: g.claims.Nodes(), Need: g.lock.need,
	})
}

// refusals lists the last answers of the nodes that did not confirm, ordered by node. Most grants
// have none, and many have one, of a node that is down or slow.
type refusals struct{ first *refusal }

type refusal struct {
	reply node.Reply
	node  int
	next  *refusal
}

// all yields each answer with the index of its node.
func (rs *refusals) all() iter.Seq2[int, *node.Reply] {
	return func(yield func(int, *node.Reply) bool) {
		for r := rs.first; r != nil && yield(r.node, &r.reply); r = r.next {
		}
	}
}

// get returns the answer of a node, or nil.
func (rs *refusals) get(i int) *node.Reply {
	if r := *rs.find(i); r != nil && r.node == i {
		return &r.reply
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
func (rs *refusals) set(i int, r *node.Reply) {
	p := rs.find(i)
	if *p == nil || (*p).node != i {
		*p = &refusal{node: i, next: *p}
	}
	(*p).reply = *r
}

// clear forgets a node's answer once the node has confirmed.
func (rs *refusals) clear(i int) {
	if p := rs.find(i); *p != nil && (*p).node == i {
		*p = (*p).next
	}
}

// nodeErrors returns the last error of each node that did not confirm. Requires g.mu.
func (g *grant) nodeErrors() []NodeError {
	var errs []NodeError
	for i, r := range g.refusals.all() {
		if err := replyError(r); err != nil {
			errs = append(errs, NodeError{Node: g.client.nodes.Name(i), Err: err})
		}
	}
	return errs
}

// errForcedOff means that a node has a tombstone for this owner.
var errForcedOff = errors.New("released by force")

// replyError returns the reason in a node's answer, or nil for a confirmation.
func replyError(r *node.Reply) error {
	switch {
	case r.Outcome == node.Denied && r.Holder.Owner == "":
		return errForcedOff
	case r.Outcome == node.Denied:
		return &HeldError{Name: r.Holder.Name, Owner: r.Holder.Owner, TTL: r.Holder.TTL}
	default:
		return r.Err
	}
}
