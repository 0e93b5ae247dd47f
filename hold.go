package quorumlock

import (
	"math"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// phase is where a hold is in its life. It only moves forward.
type phase uint8

const (
	// acquiring: the round is under way.
	acquiring phase = iota
	// held: the round was won, and the lease is valid.
	held
	// ended: lost, released, or never won. What may be on the nodes is being undone.
	ended
)

// hold is one owner: a round of acquisition, and the lease that comes of it if the
// round is won. Leases of the same context share it. Everything below mu is guarded by
// it, but for what belongs to the scheduler; lanes and the scheduler are called with it held, hooks
// and callers' code never.
type hold struct {
	client *Client
	lock   *Lock
	owner  string
	// decided is closed when the round of acquisition is won or lost; nil once it is held.
	decided chan struct{}

	// entry is that of the waiter who acquires, or nil.
	entry *entry
	// trail is that of the call that acquires, or nil.
	trail *trail

	mu sync.Mutex

	// due, index and waits belong to the scheduler. What stands behind them belongs to the mutex
	// again: they share a word.
	due   time.Duration
	index int32
	waits bool

	phase phase
	// reads is set for a reader.
	reads bool
	// failures counts the rounds of renewal that failed in a row.
	failures int32
	// backing is how many nodes backed the lease when that was reported last.
	backing  uint8
	proposal quorum.Proposal
	claims   quorum.Claims
	refusals refusals
	// validUntil is the end of the lease by local time, as far as confirmed.
	validUntil time.Duration
	// began is when the round of acquisition was sent, grantedAt when it was won.
	began, grantedAt time.Duration
	// renewAt is when the next renewal is due.
	renewAt time.Duration
	// tenure is that of whoever has it now, or had it last: first, unless it was handed over.
	tenure *tenure
	first  tenure
}

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

func newHold(l *Lock, w *waiter) *hold {
	n := l.client.nodes.Len()
	h := &hold{
		client:  l.client,
		lock:    l,
		owner:   l.nextOwner(),
		decided: make(chan struct{}),
		index:   -1,
		renewAt: never,
		backing: uint8(n), //nolint:gosec // of at most quorum.MaxNodes
		reads:   l.reads,
	}
	h.claims = quorum.NewClaims(n)
	token := l.client.tokens.propose(l.names, 0)
	end := token
	if w != nil {
		h.entry = w.entry
		if !w.alone && l.client.lines.others(w) {
			end += l.reserve(token)
		}
	}
	h.proposal = quorum.NewProposal(n, l.need, l.reads, token, end)
	return h
}

// op is an operation of this owner. Its token is the largest that it may ever use.
func (h *hold) op(kind node.Kind) node.Op {
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
	if kind == node.Renew && h.reads && !h.lock.reads && h.entry != nil {
		op.Waiter = h.entry.done() // where it was a writer until now, it stands in the way of readers
	}
	return op
}

// acquisition is the one that acquires.
func (h *hold) acquisition() node.Op {
	op := h.op(node.Acquire)
	op.Token, op.Reserve = h.proposal.Token(), h.proposal.End()-h.proposal.Token()
	op.Floor = h.proposal.ReadToken()
	op.Fair = h.entry == nil && h.lock.takesTurns()
	return op
}

// nextDue is when the scheduler has to look at a held lease next.
func (h *hold) nextDue() time.Duration { return min(h.renewAt, h.latest()) }

// latest is nextDue where a renewal has to wait.
func (h *hold) latest() time.Duration { return min(h.validUntil, h.tenure.limit(), h.nextLapse()) }

// tick does what is due for a held lease: its end, its hold limit, a renewal if there is room
// for it, which takes so long.
func (h *hold) tick(room time.Duration) {
	h.mu.Lock()
	now := h.client.clock.Now()
	why := h.tickAt(now, room)
	over := why != nil && h.finish(now, why, nil) // what ends, is the tenure that was looked at
	h.mu.Unlock()
	if over {
		h.tenure.joints.giveBack()
	}
}

// tickAt does all of that but the end, for which it returns the reason. The mutex is held.
func (h *hold) tickAt(now, room time.Duration) error {
	switch {
	case h.phase != held:
		return nil
	case h.tenure.leaked:
		return ErrLeaked
	case h.tenure.reachedLimit(now):
		return ErrHoldLimit
	case now >= h.validUntil && h.lock.fixed:
		return h.lost("its TTL ran out, and it does not renew")
	case now >= h.validUntil:
		return h.lost("no quorum of nodes confirmed a renewal in time")
	}
	if !h.renewIfDue(now, room) {
		return ErrClosed
	}
	return nil
}

// renewIfDue renews a held lease if that is due, there is room for it, and it can come of that in
// time; and says when the next is due. It reports false once the client is closed.
func (h *hold) renewIfDue(now, room time.Duration) bool {
	due := now >= h.renewAt
	waits := due && room == noRoom
	late := due && !waits && room >= h.validUntil-now
	if due && !waits && !late {
		h.renewAt = never
		h.renew(now, nil)
	}
	h.reportBacking(now)
	switch s := &h.client.schedule; {
	case waits:
		return s.await(h, h.latest())
	case late:
		// It would come to nothing, and others would come too late who do not have to.
		return s.set(h, h.latest())
	default:
		return s.set(h, h.nextDue())
	}
}
