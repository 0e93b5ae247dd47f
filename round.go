package quorumlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// ask sends the round of acquisition to all nodes in parallel. It stops early where so
// many nodes are down that the round is lost before it has begun.
func (h *hold) ask() {
	calls := make([]call, len(h.client.lanes))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = h.client.clock.Now()
	for i, l := range h.client.lanes {
		calls[i] = call{op: h.op(node.Acquire), sink: h}
		h.asked |= 1 << i
		if err := l.submit(&calls[i]); err != nil {
			h.vote(i, 0, node.Reply{Err: err, Unsent: true})
		}
		if h.round.Result() == quorum.Lost {
			return
		}
	}
}

// answer is a node's vote in the round of acquisition.
func (h *hold) answer(c *call, r node.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vote(c.lane, c.sent, r)
	if h.phase == held {
		// A straggler of a won round: it raises the expiry, if it came in time.
		h.extendTo(h.client.clock.Now())
	}
}

// vote counts a node's answer to the acquisition.
func (h *hold) vote(i int, sent time.Duration, r node.Reply) {
	pending := h.round.Result() == quorum.Pending
	h.round.Record(i, h.note(i, sent, r))
	if pending && h.round.Result() != quorum.Pending {
		close(h.decided)
	}
}

// win turns a round that was won in time into a lease.
func (h *hold) win() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.client.clock.Now()
	until := quorum.ValidUntil(h.claims, h.lock.need)
	if h.round.Result() != quorum.Won || now >= until {
		return false
	}
	h.phase, h.validUntil, h.grantedAt, h.handles = held, until, now, 1
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	if !h.lock.fixed {
		h.renewAt = quorum.NextRenewal(h.began, h.lock.ttl, 0, h.client.jitter())
	}
	return h.client.schedule.set(h, h.nextDue())
}

// abandon ends a round that was lost, or that nobody waits for any more. Every node
// that may have taken it gives it back.
func (h *hold) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = ended
	h.undo(nobody{})
}
