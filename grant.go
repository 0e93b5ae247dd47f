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

// grantState is where a hold is in its life. It only moves forward.
type grantState uint8

const (
	// stateAcquiring: the round is under way.
	stateAcquiring grantState = iota
	// stateHeld: the round was won, and the lease is valid.
	stateHeld
	// stateEnded: lost, released, or never won. What may be on the nodes is being undone.
	stateEnded
)

// grant is one owner: a round of acquisition, and the lease that comes of it if the
// round is won. Leases of the same context share it. Everything below mu is guarded by
// it, but for what belongs to the scheduler; lanes and the scheduler are called with it held, hooks
// and callers' code never.
type grant struct {
	client *Client
	lock   *Lock
	owner  string
	// decided is closed when the round of acquisition is won or lost; nil once it is held.
	decided chan struct{}

	// ticket is that of the waiter who acquires, or nil.
	ticket *ticket
	// trace is that of the call that acquires, or nil.
	trace *trace

	mu sync.Mutex

	// dueAt, index and waits belong to the scheduler. What stands behind them belongs to the mutex
	// again: they share a word.
	dueAt          time.Duration
	heapIndex      int32
	awaitsCapacity bool

	state grantState
	// reads is set for a reader.
	reads bool
	// failedRenewals counts the rounds of renewal that failed in a row.
	failedRenewals int32
	// reportedBacking is how many nodes backed the lease when that was reported last.
	reportedBacking uint8
	proposal        quorum.Proposal
	claims          quorum.Claims
	refusals        refusals
	// validUntil is the end of the lease by local time, as far as confirmed.
	validUntil time.Duration
	// sentAt is when the round of acquisition was sent, grantedAt when it was won.
	sentAt, grantedAt time.Duration
	// nextRenewalAt is when the next renewal is due.
	nextRenewalAt time.Duration
	// lease is that of whoever has it now, or had it last: first, unless it was handed over.
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

// operation is an operation of this owner. Its token is the largest that it may ever use.
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
		op.Waiter = g.ticket.asLeaver() // where it was a writer until now, it stands in the way of readers
	}
	return op
}

// acquireOp is the one that acquires.
func (g *grant) acquireOp() node.Op {
	op := g.operation(node.Acquire)
	op.Token, op.Reserve = g.proposal.Token(), g.proposal.End()-g.proposal.Token()
	op.Floor = g.proposal.ReadToken()
	op.Fair = g.ticket == nil && g.lock.isFIFO()
	return op
}

// nextDue is when the scheduler has to look at a held lease next.
func (g *grant) nextDue() time.Duration { return min(g.nextRenewalAt, g.dueWithoutRenewal()) }

// dueWithoutRenewal is nextDue where a renewal has to wait.
func (g *grant) dueWithoutRenewal() time.Duration {
	return min(g.validUntil, g.lease.holdLimit(), g.nextClaimExpiry())
}

// onDue does what is due for a held lease: its end, its hold limit, a renewal if there is room
// for it, which takes so long.
func (g *grant) onDue(room time.Duration) {
	g.mu.Lock()
	now := g.client.clock.Now()
	why := g.reasonToEnd(now, room)
	over := why != nil && g.endLocked(now, why, nil) // what ends, is the tenure that was looked at
	g.mu.Unlock()
	if over {
		g.lease.jointLeases.beginReleases()
	}
}

// reasonToEnd does all of that but the end, for which it returns the reason. The mutex is held.
func (g *grant) reasonToEnd(now, room time.Duration) error {
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
	if !g.renewIfDue(now, room) {
		return ErrClosed
	}
	return nil
}

// renewIfDue renews a held lease if that is due, there is room for it, and it can come of that in
// time; and says when the next is due. It reports false once the client is closed.
func (g *grant) renewIfDue(now, room time.Duration) bool {
	due := now >= g.nextRenewalAt
	waits := due && room == noCapacity
	late := due && !waits && room >= g.validUntil-now
	if due && !waits && !late {
		g.nextRenewalAt = never
		g.renew(now, nil)
	}
	g.reportBacking(now)
	switch s := &g.client.scheduler; {
	case waits:
		return s.awaitCapacity(g, g.dueWithoutRenewal())
	case late:
		// It would come to nothing, and others would come too late who do not have to.
		return s.schedule(g, g.dueWithoutRenewal())
	default:
		return s.schedule(g, g.nextDue())
	}
}

// recordReply records what a node answered, and returns the vote that it counts as.
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

// minGain is what it is not worth to look at the clock for, in the life of a lease.
const minGain = time.Millisecond

// applyLateVote has the answer of a node that does not decide prolong a lease that is held.
func (g *grant) applyLateVote() {
	gain := g.claims.ValidUntil(g.lock.need) - g.validUntil
	if gain < minGain && g.client.cfg.Hooks.BackingChanged == nil {
		return
	}
	now := g.client.clock.Now()
	g.extendValidity(now)
	g.reportBacking(now)
}

// extendValidity moves validUntil to what the claims allow. Nothing revives a lease whose
// time is over: such claims come to nothing.
func (g *grant) extendValidity(now time.Duration) {
	if now < g.validUntil {
		g.validUntil = max(g.validUntil, g.claims.ValidUntil(g.lock.need))
	}
}

// errHealUncounted is why a renewal that a node took did not count.
var errHealUncounted = errors.New("it took the lock back, which counts from the first renewal after its recovery")

// refusals are the last answers of those nodes whose last answer was no confirmation, in the
// order of the nodes. Most holds have none, and many have one, of a node that is down or slow.
type refusals struct{ first *refusal }

type refusal struct {
	reply node.Reply
	node  int
	next  *refusal
}

// all are all of them, each with the index of its node.
func (rs *refusals) all() iter.Seq2[int, *node.Reply] {
	return func(yield func(int, *node.Reply) bool) {
		for r := rs.first; r != nil && yield(r.node, &r.reply); r = r.next {
		}
	}
}

// get is that of a node, or nil.
func (rs *refusals) get(i int) *node.Reply {
	if r := *rs.find(i); r != nil && r.node == i {
		return &r.reply
	}
	return nil
}

// find is where that of a node is, or would be.
func (rs *refusals) find(i int) **refusal {
	p := &rs.first
	for *p != nil && (*p).node < i {
		p = &(*p).next
	}
	return p
}

// set keeps what a node refused with.
func (rs *refusals) set(i int, r *node.Reply) {
	p := rs.find(i)
	if *p == nil || (*p).node != i {
		*p = &refusal{node: i, next: *p}
	}
	(*p).reply = *r
}

// clear forgets what a node refused with, as it does not any more.
func (rs *refusals) clear(i int) {
	if p := rs.find(i); *p != nil && (*p).node == i {
		*p = (*p).next
	}
}

// nodeErrors is what the nodes that did not confirm said last. The mutex is held.
func (g *grant) nodeErrors() []NodeError {
	var errs []NodeError
	for i, r := range g.refusals.all() {
		if err := replyError(r); err != nil {
			errs = append(errs, NodeError{Node: g.client.nodes.Name(i), Err: err})
		}
	}
	return errs
}

// errForcedOff is what a node says whose lock was released by force.
var errForcedOff = errors.New("released by force")

// replyError is the reason in a node's answer; nil for a confirmation.
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

// nextClaimExpiry is when the next claim runs out unless it is renewed.
func (g *grant) nextClaimExpiry() time.Duration {
	if g.client.cfg.Hooks.BackingChanged == nil {
		return never // no hook to tell
	}
	return g.claims.NextLapse(g.client.clock.Now())
}

// reportBacking tells the hook if the number of nodes that back a held lease is another
// than when that was told last. While the slower votes of the acquisition are out it
// is not news. The mutex is held.
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
