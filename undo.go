package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// undoMargin is how long undos are repeated besides the TTL. What a node has granted is
// over after the TTL; but a node that hangs may have commands in its buffers, and run
// them when it wakes.
const undoMargin = time.Minute

// undo releases this owner on every node that may have seen it. A node that fails is
// tried again until the TTL has passed, and a margin.
func (h *hold) undo(now time.Duration, r *releasing) {
	if r == nil {
		h.undoBy(newVolley(len(h.client.lanes), h.release()), now, nobody{})
		return
	}
	r.forced = h.forcedOff()
	r.volley.aim(len(h.client.lanes), h.release())
	h.undoBy(&r.volley, now, r)
}

func (h *hold) undoBy(v *volley, now time.Duration, to sink) {
	for i := range v.calls {
		h.undoOn(i, now, &v.calls[i], to)
	}
}

// release is the operation that undoes.
func (h *hold) release() node.Op {
	op := h.op(node.Release)
	op.Announce = h.client.cfg.Redisson
	return op
}

// undoOne does so on one node, before what has been sent there since if it is to be first.
func (h *hold) undoOne(i int, now time.Duration, first bool) {
	op := h.release()
	c := &call{op: &op, first: first}
	c.aim(i)
	h.undoOn(i, now, c, nobody{})
}

// undoOn does so on one node, by a call that has the operation.
func (h *hold) undoOn(i int, now time.Duration, c *call, to sink) {
	c.sink, c.until = to, now+h.lock.ttl+undoMargin
	if h.entry != nil {
		op := *c.op
		op.Waiter = h.entryAfter(i)
		c.op = &op
	}
	if h.asked&(1<<i) == 0 {
		to.answer(c, &node.Reply{Outcome: node.Absent})
		return
	}
	if err := h.client.lanes[i].submit(c); err != nil {
		to.answer(c, &node.Reply{Err: err})
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

func (nobody) answer(*call, *node.Reply) {}
