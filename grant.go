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
	h := &grant{
		client:          l.client,
		lock:            l,
		owner:           l.nextOwner(),
		decided:         make(chan struct{}),
		heapIndex:       -1,
		nextRenewalAt:   never,
		reportedBacking: uint8(n), //nolint:gosec // of at most quorum.MaxNodes
		reads:           l.shared,
	}
	h.claims = quorum.NewClaims(n)
	token := l.client.tokenClock.propose(l.names, 0)
	end := token
	if w != nil {
		h.ticket = w.ticket
		if !w.noBlock && l.client.queues.hasFollower(w) {
			end += l.blockSize(token)
		}
	}
	h.proposal = quorum.NewProposal(n, l.need, l.shared, token, end)
	return h
}

// operation is an operation of this owner. Its token is the largest that it may ever use.
func (h *grant) operation(kind node.Kind) node.Op {
	op := node.Op{
		Kind:   kind,
		Names:  h.lock.names,
		Owner:  h.owner,
		TTL:    h.lock.ttl,
		Token:  h.proposal.End(),
		Reads:  h.reads,
		Limits: h.client.cfg.limits(),
		Pool:   h.lock.slots.OnNodes(),
	}
	if kind == node.Renew && h.reads && !h.lock.shared && h.ticket != nil {
		op.Waiter = h.ticket.asLeaver() // where it was a writer until now, it stands in the way of readers
	}
	return op
}

// acquireOp is the one that acquires.
func (h *grant) acquireOp() node.Op {
	op := h.operation(node.Acquire)
	op.Token, op.Reserve = h.proposal.Token(), h.proposal.End()-h.proposal.Token()
	op.Floor = h.proposal.ReadToken()
	op.Fair = h.ticket == nil && h.lock.isFIFO()
	return op
}

// nextDue is when the scheduler has to look at a held lease next.
func (h *grant) nextDue() time.Duration { return min(h.nextRenewalAt, h.dueWithoutRenewal()) }

// dueWithoutRenewal is nextDue where a renewal has to wait.
func (h *grant) dueWithoutRenewal() time.Duration {
	return min(h.validUntil, h.lease.holdLimit(), h.nextClaimExpiry())
}

// onDue does what is due for a held lease: its end, its hold limit, a renewal if there is room
// for it, which takes so long.
func (h *grant) onDue(room time.Duration) {
	h.mu.Lock()
	now := h.client.clock.Now()
	why := h.reasonToEnd(now, room)
	over := why != nil && h.endLocked(now, why, nil) // what ends, is the tenure that was looked at
	h.mu.Unlock()
	if over {
		h.lease.jointLeases.beginReleases()
	}
}

// reasonToEnd does all of that but the end, for which it returns the reason. The mutex is held.
func (h *grant) reasonToEnd(now, room time.Duration) error {
	switch {
	case h.state != stateHeld:
		return nil
	case h.lease.leaked:
		return ErrLeaked
	case h.lease.reachedLimit(now):
		return ErrHoldLimit
	case now >= h.validUntil && h.lock.noRenew:
		return h.expiredError("its TTL ran out, and it does not renew")
	case now >= h.validUntil:
		return h.expiredError("no quorum of nodes confirmed a renewal in time")
	}
	if !h.renewIfDue(now, room) {
		return ErrClosed
	}
	return nil
}

// renewIfDue renews a held lease if that is due, there is room for it, and it can come of that in
// time; and says when the next is due. It reports false once the client is closed.
func (h *grant) renewIfDue(now, room time.Duration) bool {
	due := now >= h.nextRenewalAt
	waits := due && room == noCapacity
	late := due && !waits && room >= h.validUntil-now
	if due && !waits && !late {
		h.nextRenewalAt = never
		h.renew(now, nil)
	}
	h.reportBacking(now)
	switch s := &h.client.scheduler; {
	case waits:
		return s.awaitCapacity(h, h.dueWithoutRenewal())
	case late:
		// It would come to nothing, and others would come too late who do not have to.
		return s.schedule(h, h.dueWithoutRenewal())
	default:
		return s.schedule(h, h.nextDue())
	}
}

// recordReply records what a node answered, and returns the vote that it counts as.
func (h *grant) recordReply(i int, sent time.Duration, r *node.Reply) quorum.Vote {
	switch r.Outcome {
	case node.Granted, node.Healed:
		recovering := r.Recovering > 0
		var now time.Duration
		if recovering {
			now = h.client.clock.Now()
		}
		if !h.claims.Confirm(i, sent, h.lock.ttl, now, recovering) {
			h.refusals.set(i, &node.Reply{Err: &node.Error{
				Node: h.client.nodes.Name(i), Op: node.Renew, Reason: node.ErrRecovering, Err: errHealUncounted,
			}})
			return quorum.Unknown
		}
		h.refusals.clear(i)
		return quorum.Granted
	case node.Denied:
		h.claims.Drop(i)
		h.refusals.set(i, r)
		return quorum.Denied
	default:
		h.refusals.set(i, r)
		return quorum.Unknown
	}
}

// minGain is what it is not worth to look at the clock for, in the life of a lease.
const minGain = time.Millisecond

// applyLateVote has the answer of a node that does not decide prolong a lease that is held.
func (h *grant) applyLateVote() {
	gain := h.claims.ValidUntil(h.lock.need) - h.validUntil
	if gain < minGain && h.client.cfg.Hooks.BackingChanged == nil {
		return
	}
	now := h.client.clock.Now()
	h.extendValidity(now)
	h.reportBacking(now)
}

// extendValidity moves validUntil to what the claims allow. Nothing revives a lease whose
// time is over: such claims come to nothing.
func (h *grant) extendValidity(now time.Duration) {
	if now < h.validUntil {
		h.validUntil = max(h.validUntil, h.claims.ValidUntil(h.lock.need))
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
func (h *grant) nodeErrors() []NodeError {
	var errs []NodeError
	for i, r := range h.refusals.all() {
		if err := replyError(r); err != nil {
			errs = append(errs, NodeError{Node: h.client.nodes.Name(i), Err: err})
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
func (h *grant) nextClaimExpiry() time.Duration {
	if h.client.cfg.Hooks.BackingChanged == nil {
		return never // no hook to tell
	}
	return h.claims.NextLapse(h.client.clock.Now())
}

// reportBacking tells the hook if the number of nodes that back a held lease is another
// than when that was told last. While the slower votes of the acquisition are out it
// is not news. The mutex is held.
func (h *grant) reportBacking(now time.Duration) {
	hook := h.client.cfg.Hooks.BackingChanged
	if hook == nil || h.state != stateHeld || h.proposal.Votes().Missing() > 0 {
		return
	}
	have := h.claims.Backing(now)
	if have == int(h.reportedBacking) {
		return
	}
	h.reportedBacking = uint8(have) //nolint:gosec // of at most quorum.MaxNodes
	report(&h.client.reporter, hook, BackingEvent{
		Names: h.lock.Names(), Owner: h.owner, Have: have, Want: h.claims.Nodes(), Need: h.lock.need,
	})
}
