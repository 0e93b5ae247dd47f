package quorumlock

import (
	"math/bits"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// redissonNames are the names whose releases Redisson may announce: it knows nothing of semaphores here.
func (e *ticket) redissonNames() []string {
	if e.waiter.lock.slots != nil {
		return nil
	}
	return e.names
}

// addHint notes which slots a node would have the waiter take.
func (e *ticket) addHint(i int, slots []int) {
	if e == nil || len(slots) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.slotHints == nil {
		e.slotHints = make([]quorum.Slots, e.client.nodes.Len())
	}
	e.slotHints[i] = nil
	for _, slot := range slots {
		if slot < MaxPermits {
			e.slotHints[i] = e.slotHints[i].With(slot)
		}
	}
}

// takeHints are the hints since the last attempt, for the next.
func (e *ticket) takeHints() []quorum.Slots {
	e.mu.Lock()
	defer e.mu.Unlock()
	hints := e.slotHints
	e.slotHints = nil
	return hints
}

// What becomes of the entry of a waiter that has got its permits. The nodes that granted them
// have forgotten it. The others have denied, mostly since the release that made room had not
// come through to them: there it stays, and waits for that. For another to be woken by it
// would be in vain, as most nodes have given the slot away.

// keepPlaces notes what the waiter of the entry has got, and takes the entry out of the queues of those
// nodes that may have it and have not said so.
func (e *ticket) keepPlaces(h *grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grant = h
	for i := range e.client.nodes.Len() {
		switch h.proposal.Votes().Vote(i) {
		case quorum.Granted:
			e.queuedAt &^= 1 << i
		case quorum.Unknown:
			e.leaveNodeLocked(i)
		}
	}
}

// returnHintedSlot has a node that tells a waiter of free slots put back the one that it has got elsewhere,
// and forget the waiter: if others are free too, somebody else is woken then. It reports
// whether the waiter has got any.
func (e *ticket) returnHintedSlot(i int) bool {
	e.mu.Lock()
	h := e.grant
	e.mu.Unlock()
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateHeld && h.client.clock.Now() < h.validUntil {
		h.renewNode(i)
		e.leaveNode(i)
	}
	return true
}

// renewNode renews the lease on one node. The mutex is held, and the phase is held.
func (h *grant) renewNode(i int) {
	r := &renewalRound{grant: h, tally: quorum.NewTally(h.claims.Nodes(), h.lock.need), decided: true}
	h.proposal.Renews()
	h.proposal.Expose(i)
	op := h.operation(node.Renew)
	if err := h.client.nodes.Submit(i, &dispatch.Call{Op: &op, To: r, Renews: h.renews()}); err != nil {
		r.recordVote(i, 0, &node.Reply{Err: err, Unsent: true})
	}
}

// attemptNow has a waiter try now, whatever it expects. The mutex of the lines is held.
func (w *waiter) attemptNow() {
	w.stale = true
	w.nudge()
}

// mayBeFirst reports whether a waiter is not known to stand behind others: it has no entry, or is
// the first in the queues of enough nodes. The mutex of the lines is held.
func (w *waiter) mayBeFirst() bool {
	return w.visibleTicket == nil || w.visibleTicket.mayBeFirst()
}

// publishTicket has others see the entry of a waiter.
func (w *waiter) publishTicket() {
	ls := &w.lock.client.queues
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.visibleTicket = w.ticket
}

func (e *ticket) mayBeFirst() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.attempted || bits.OnesCount64(e.headAt) >= e.waiter.lock.need
}
