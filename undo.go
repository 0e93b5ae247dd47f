package quorumlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
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
		h.undoBy(dispatch.NewCalls(h.client.nodes.Len(), h.release()), now, dispatch.Ignore)
		return
	}
	r.forced = h.forcedOff()
	r.calls.Aim(h.client.nodes.Len(), h.release())
	for i := range h.client.nodes.Len() {
		r.calls.To(i).Deadline = h.lock.deadline(now) // a caller waits
	}
	h.undoBy(&r.calls, now, r)
}

func (h *hold) undoBy(v *dispatch.Calls, now time.Duration, to dispatch.Receiver) {
	for i := range h.client.nodes.Len() {
		h.undoOn(i, now, v.To(i), to)
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
	c := dispatch.NewCall(i, &op, dispatch.Ignore)
	c.Front = first
	h.undoOn(i, now, c, c.To)
}

// undoOn does so on one node, by a call that has the operation.
func (h *hold) undoOn(i int, now time.Duration, c *dispatch.Call, to dispatch.Receiver) {
	c.To, c.Until = to, now+h.lock.ttl+undoMargin
	if h.entry != nil {
		op := *c.Op
		op.Waiter = h.entryAfter(i)
		c.Op = &op
	}
	if !h.proposal.Exposed().Has(i) {
		to.Answer(c, &node.Reply{Outcome: node.Absent})
		return
	}
	if err := h.client.nodes.Submit(i, c); err != nil {
		to.Answer(c, &node.Reply{Err: err})
	}
}

// entryAfter is what becomes of the waiter's entry on a node, when what that granted is
// undone: one who has not got the lock waits on.
func (h *hold) entryAfter(i int) node.Waiter {
	if h.tenure == nil {
		return h.entry.afterUndo(i)
	}
	if !h.proposal.Exposed().Has(i) {
		h.entry.strikeOne(i)
	}
	return h.entry.done()
}
