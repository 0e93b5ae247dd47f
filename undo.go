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

// releaseEverywhere releases this owner on every node that may have seen it. A node that fails is
// tried again until the TTL has passed, and a margin.
func (h *grant) releaseEverywhere(now time.Duration, r *releaseRound) {
	if r == nil {
		h.submitReleases(dispatch.NewCalls(h.client.nodes.Len(), h.releaseOp()), now, dispatch.Ignore)
		return
	}
	r.forced = h.hasTombstone()
	r.calls.Aim(h.client.nodes.Len(), h.releaseOp())
	for i := range h.client.nodes.Len() {
		r.calls.To(i).Deadline = h.lock.deadline(now) // a caller waits
	}
	h.submitReleases(&r.calls, now, r)
}

func (h *grant) submitReleases(v *dispatch.Calls, now time.Duration, to dispatch.Receiver) {
	for i := range h.client.nodes.Len() {
		h.submitUndo(i, now, v.To(i), to)
	}
}

// releaseOp is the operation that undoes.
func (h *grant) releaseOp() node.Op {
	op := h.operation(node.Release)
	op.Announce = h.client.cfg.Redisson
	return op
}

// undoAt does so on one node, before what has been sent there since if it is to be first.
func (h *grant) undoAt(i int, now time.Duration, first bool) {
	op := h.releaseOp()
	c := dispatch.NewCall(i, &op, dispatch.Ignore)
	c.Front = first
	h.submitUndo(i, now, c, c.To)
}

// submitUndo does so on one node, by a call that has the operation.
func (h *grant) submitUndo(i int, now time.Duration, c *dispatch.Call, to dispatch.Receiver) {
	c.To, c.Until = to, now+h.lock.ttl+undoMargin
	if h.ticket != nil {
		op := *c.Op
		op.Waiter = h.ticketAfterUndo(i)
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

// ticketAfterUndo is what becomes of the waiter's entry on a node, when what that granted is
// undone: one who has not got the lock waits on.
func (h *grant) ticketAfterUndo(i int) node.Waiter {
	if h.lease == nil {
		return h.ticket.onUndo(i)
	}
	if !h.proposal.Exposed().Has(i) {
		h.ticket.leaveNode(i)
	}
	return h.ticket.asLeaver()
}
