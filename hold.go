package quorumlock

import (
	"errors"
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
// it; lanes and the scheduler are called with it held, hooks and callers' code never.
type hold struct {
	client *Client
	lock   *Lock
	owner  string
	// decided is closed when the round of acquisition is won or lost.
	decided chan struct{}

	// due and index belong to the scheduler.
	due   time.Duration
	index int

	// entry is that of the waiter who acquires, or nil.
	entry *entry

	mu    sync.Mutex
	phase phase
	// round counts the votes of acquisition, taken which nodes took the token that was
	// proposed last, and token is that. The nodes keep last instead, the end of a block of
	// tokens that begins with it.
	round, taken quorum.Tally
	token, last  uint64
	// fences are the tokens that the nodes have told in this round, or that they took; nil
	// while none has told one. proposals counts the tokens that were proposed.
	fences    []uint64
	proposals int
	// claims is, for each node, until when what it confirmed may be relied on; few is where
	// that is kept of few nodes.
	claims []time.Duration
	few    [fewNodes]time.Duration
	// asked marks the nodes that may have seen this owner: those to undo on. Of these, out
	// marks those that have an acquisition to answer, and renewed is set once renewals are
	// sent to all.
	asked, out uint64
	renewed    bool
	// refusals is, for each node, its last answer if that was no confirmation; nil
	// while all have confirmed.
	refusals []node.Reply
	// validUntil is the end of the lease by local time, as far as confirmed.
	validUntil time.Duration
	// began is when the round of acquisition was sent, grantedAt when it was won.
	began, grantedAt time.Duration
	// renewAt is when the next renewal is due, failures how many failed in a row.
	renewAt  time.Duration
	failures int
	// tenure is that of whoever has it now, or had it last: first, unless it was handed over.
	tenure *tenure
	first  tenure
	// releasing counts who has confirmed its release.
	releasing releasing
	// backing is how many nodes backed the lease when that was reported last.
	backing int
}

// fewNodes is how many there are, in most deployments, at most.
const fewNodes = 7

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

func newHold(l *Lock, w *waiter) *hold {
	n := len(l.client.lanes)
	h := &hold{
		client:  l.client,
		lock:    l,
		owner:   l.client.nextOwner(),
		decided: make(chan struct{}),
		index:   -1,
		round:   quorum.NewTally(n, l.need),
		taken:   quorum.NewTally(n, l.need),
		renewAt: never,
		backing: n,
	}
	if n <= fewNodes {
		h.claims = h.few[:n]
	} else {
		h.claims = make([]time.Duration, n)
	}
	h.token = l.client.tokens.propose(l.names, 0)
	h.last = h.token
	if w != nil {
		h.entry = w.entry
		if !w.alone && l.client.lines.others(w) {
			h.last += l.reserve(h.token)
		}
	}
	return h
}

// op is an operation of this owner. Its token is the largest that it may ever use.
func (h *hold) op(kind node.Kind) node.Op {
	return node.Op{
		Kind:   kind,
		Names:  h.lock.names,
		Owner:  h.owner,
		TTL:    h.lock.ttl,
		Token:  h.last,
		Limits: h.client.cfg.limits(),
	}
}

// acquisition is the one that acquires.
func (h *hold) acquisition(i int) node.Op {
	op := h.op(node.Acquire)
	op.Token, op.Reserve = h.token, h.last-h.token
	if h.entry != nil {
		h.entry.sign(&op, i)
	} else {
		op.Fair = h.lock.takesTurns()
	}
	return op
}

// note keeps what a node answered, and says what it counts as.
//
// A node that recovers has forgotten whom it granted the lock before. That it took this
// owner's renewal says nothing, unless this owner had a claim there all the time: then
// nobody else can have had one.
func (h *hold) note(i int, sent time.Duration, r node.Reply) quorum.Vote {
	switch r.Outcome {
	case node.Granted, node.Healed:
		if r.Recovering > 0 && h.claims[i] <= h.client.clock.Now() {
			h.refuse(i, node.Reply{Err: &node.Error{
				Node: h.client.lanes[i].node.Name(), Op: node.Renew, Reason: node.ErrRecovering, Err: errUncounted,
			}})
			return quorum.Unknown
		}
		h.claims[i] = max(h.claims[i], quorum.Expiry(sent, h.lock.ttl))
		if h.refusals != nil {
			h.refusals[i] = node.Reply{}
		}
		return quorum.Granted
	case node.Denied:
		// Whatever it confirmed before, it has let go.
		h.claims[i] = 0
		h.refuse(i, r)
		return quorum.Denied
	default:
		h.refuse(i, r)
		return quorum.Unknown
	}
}

func (h *hold) refuse(i int, r node.Reply) {
	if h.refusals == nil {
		h.refusals = make([]node.Reply, len(h.claims))
	}
	h.refusals[i] = r
}

// extendTo moves validUntil to what the claims allow. Nothing revives a lease whose
// time is over: such claims come to nothing.
func (h *hold) extendTo(now time.Duration) {
	if now < h.validUntil {
		h.validUntil = max(h.validUntil, quorum.ValidUntil(h.claims, h.lock.need))
	}
}

// errUncounted is why a renewal that a node took did not count.
var errUncounted = errors.New("it took the lock back, which counts from the first renewal after its recovery")

// nextDue is when the scheduler has to look at a held lease next.
func (h *hold) nextDue() time.Duration {
	return min(h.validUntil, h.renewAt, h.tenure.limit(), h.nextLapse())
}

// nextLapse is when the next claim runs out unless it is renewed.
func (h *hold) nextLapse() time.Duration {
	now, next := h.client.clock.Now(), never
	if h.client.cfg.Hooks.BackingChanged == nil {
		return next // nobody wants to know
	}
	for _, c := range h.claims {
		if c > now {
			next = min(next, c)
		}
	}
	return next
}

// reportBacking tells the hook if the number of nodes that back a held lease is another
// than when that was told last. While the slower votes of the acquisition are out it
// is not news. The mutex is held.
func (h *hold) reportBacking(now time.Duration) {
	hook := h.client.cfg.Hooks.BackingChanged
	if hook == nil || h.phase != held || h.round.Missing() > 0 {
		return
	}
	have := quorum.Backing(h.claims, now)
	if have == h.backing {
		return
	}
	h.backing = have
	fire(&h.client.reports, hook, BackingEvent{
		Names: h.lock.Names(), Owner: h.owner, Have: have, Want: len(h.claims), Need: h.lock.need,
	})
}

// undoMargin is how long undos are repeated besides the TTL. What a node has granted is
// over after the TTL; but a node that hangs may have commands in its buffers, and run
// them when it wakes.
const undoMargin = time.Minute

// undo releases this owner on every node that may have seen it. A node that fails is
// tried again until the TTL has passed, and a margin.
func (h *hold) undo(to sink) {
	calls := make([]call, len(h.client.lanes))
	for i := range calls {
		h.undoOn(i, &calls[i], to)
	}
}

// undoOn does so on one node.
func (h *hold) undoOn(i int, c *call, to sink) {
	*c = call{op: h.op(node.Release), sink: to, until: h.client.clock.Now() + h.lock.ttl + undoMargin, lane: i, first: c.first}
	c.op.Announce = h.client.cfg.Redisson
	if h.entry != nil {
		c.op.Waiter = h.entryAfter(i)
	}
	if h.asked&(1<<i) == 0 {
		to.answer(c, node.Reply{Outcome: node.Absent})
		return
	}
	if err := h.client.lanes[i].submit(c); err != nil {
		to.answer(c, node.Reply{Err: err})
	}
}

// entryAfter is what becomes of the waiter's entry on a node, when what that granted is
// undone: one who has not got the lock waits on.
func (h *hold) entryAfter(i int) node.Waiter {
	if h.tenure == nil {
		return h.entry.afterUndo(i)
	}
	if h.asked&(1<<i) == 0 {
		h.entry.strikeOne(i)
	}
	return h.entry.done()
}

// nobody is told about undos that no caller waits for.
type nobody struct{}

func (nobody) answer(*call, node.Reply) {}

// tick does what is due for a held lease: its end, its hold limit, a renewal.
func (h *hold) tick() {
	h.mu.Lock()
	defer h.mu.Unlock() // what ends, is the tenure that is looked at
	now := h.client.clock.Now()
	var over error
	switch {
	case h.phase != held:
	case h.tenure.leaked:
		over = ErrLeaked
	case now >= h.validUntil:
		over = h.lost("no quorum of nodes confirmed a renewal in time")
		if h.lock.fixed {
			over = h.lost("its TTL ran out, and it does not renew")
		}
	case now >= h.tenure.limit():
		over = ErrHoldLimit
	default:
		if now >= h.renewAt {
			h.renewAt = never
			h.renew(now, nil)
		}
		h.reportBacking(now)
		if !h.client.schedule.set(h, h.nextDue()) {
			over = ErrClosed
		}
	}
	if over != nil {
		h.finish(over, nobody{})
	}
}

// end ends the lease, if it has not ended yet, and undoes it on the nodes.
func (h *hold) end(cause error) { h.endTo(cause, nobody{}) }

// endTo is end for somebody who waits for the nodes. It reports whether this call
// ended the lease.
func (h *hold) endTo(cause error, to sink) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.finish(cause, to)
}

// finish is endTo with the mutex held.
func (h *hold) finish(cause error, to sink) bool {
	if h.phase != held {
		return false
	}
	now := h.client.clock.Now()
	t := h.tenure
	if now >= h.validUntil && !errors.Is(cause, ErrLost) && !t.leaked {
		cause = h.lost("its time had run out before it was released")
	}
	h.phase = ended
	t.end(cause)
	h.reportEnd(t, cause, now-t.grantedAt) // before anybody else can report a grant
	// In this order: a Close that does not find the hold any more may close the lanes. And
	// who of this client is next must not send anything before the release.
	h.undo(to)
	h.client.schedule.remove(h)
	h.client.lines.gave(h)
	if h.entry != nil {
		h.entry.forget()
		h.client.inboxes.unlist(h.entry)
	}
	return true
}

// reportEnd tells the log and the hooks. Only what nobody asked for is worth a line.
func (h *hold) reportEnd(t *tenure, cause error, heldFor time.Duration) {
	c := h.client
	switch {
	case errors.Is(cause, ErrReleased), errors.Is(cause, ErrClosed):
	case errors.Is(cause, ErrLeaked):
		c.warn("quorumlock: a lease was dropped without a Release; it is released now", "names", h.lock.names, "owner", h.owner, "held", heldFor)
	default:
		c.warn("quorumlock: lease ended", "names", h.lock.names, "owner", h.owner, "held", heldFor, "err", cause)
	}
	if hook := c.cfg.Hooks.Ended; hook != nil {
		fire(&c.reports, hook, EndedEvent{Names: h.lock.Names(), Owner: h.owner, Token: t.token, Held: heldFor, Err: cause})
	}
}

// lost is the error for a lease that ends by itself. The mutex is held.
func (h *hold) lost(reason string) error {
	return &LostError{Names: h.lock.Names(), Owner: h.owner, Reason: reason, Nodes: h.nodeErrors()}
}

// nodeErrors is what the nodes that did not confirm said last. The mutex is held.
func (h *hold) nodeErrors() []NodeError {
	var errs []NodeError
	for i, r := range h.refusals {
		if err := refusalError(r); err != nil {
			errs = append(errs, NodeError{Node: h.client.lanes[i].node.Name(), Err: err})
		}
	}
	return errs
}

// errForcedOff is what a node says whose lock was released by force.
var errForcedOff = errors.New("released by force")

// refusalError is the reason in a node's answer; nil for a confirmation.
func refusalError(r node.Reply) error {
	switch {
	case r.Outcome == node.Denied && r.Holder.Owner == "":
		return errForcedOff
	case r.Outcome == node.Denied:
		return &HeldError{Name: r.Holder.Name, Owner: r.Holder.Owner, TTL: r.Holder.TTL}
	default:
		return r.Err
	}
}
