package quorumlock

import (
	"math/bits"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// followed are the names whose releases Redisson may announce: it knows nothing of semaphores here.
func (e *entry) followed() []string {
	if e.waiter.lock.slots != nil {
		return nil
	}
	return e.names
}

// hint notes which slots a node would have the waiter take.
func (e *entry) hint(i int, slots []int) {
	if e == nil || len(slots) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hints == nil {
		e.hints = make([]quorum.Slots, e.client.nodes.Len())
	}
	e.hints[i] = nil
	for _, slot := range slots {
		if slot < MaxPermits {
			e.hints[i] = e.hints[i].With(slot)
		}
	}
}

// takeHints are the hints since the last attempt, for the next.
func (e *entry) takeHints() []quorum.Slots {
	e.mu.Lock()
	defer e.mu.Unlock()
	hints := e.hints
	e.hints = nil
	return hints
}

// What becomes of the entry of a waiter that has got its permits. The nodes that granted them
// have forgotten it. The others have denied, mostly since the release that made room had not
// come through to them: there it stays, and waits for that. For another to be woken by it
// would be in vain, as most nodes have given the slot away.

// settle notes what the waiter of the entry has got, and takes the entry out of the queues of those
// nodes that may have it and have not said so.
func (e *entry) settle(h *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.won = h
	for i := range e.client.nodes.Len() {
		switch h.proposal.Votes().Vote(i) {
		case quorum.Granted:
			e.entered &^= 1 << i
		case quorum.Unknown:
			e.strikeAt(i)
		}
	}
}

// fill has a node that tells a waiter of free slots put back the one that it has got elsewhere,
// and forget the waiter: if others are free too, somebody else is woken then. It reports
// whether the waiter has got any.
func (e *entry) fill(i int) bool {
	e.mu.Lock()
	h := e.won
	e.mu.Unlock()
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == held && h.client.clock.Now() < h.validUntil {
		h.renewOn(i)
		e.strikeOne(i)
	}
	return true
}

// renewOn renews the lease on one node. The mutex is held, and the phase is held.
func (h *hold) renewOn(i int) {
	r := &renewal{hold: h, tally: quorum.NewTally(h.claims.Nodes(), h.lock.need), over: true}
	h.proposal.Renews()
	h.proposal.Expose(i)
	op := h.op(node.Renew)
	if err := h.client.nodes.Submit(i, &dispatch.Call{Op: &op, To: r, Renews: h.renews()}); err != nil {
		r.record(i, 0, &node.Reply{Err: err, Unsent: true})
	}
}

// hurry has a waiter try now, whatever it expects. The mutex of the lines is held.
func (w *waiter) hurry() {
	w.stale = true
	w.nudge()
}

// leads reports whether a waiter is not known to stand behind others: it has no entry, or is
// the first in the queues of enough nodes. The mutex of the lines is held.
func (w *waiter) leads() bool {
	return w.listed == nil || w.listed.leads()
}

// list has others see the entry of a waiter.
func (w *waiter) list() {
	ls := &w.lock.client.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.listed = w.entry
}

func (e *entry) leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.asked || bits.OnesCount64(e.first) >= e.waiter.lock.need
}
