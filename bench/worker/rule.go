package worker

import "github.com/quorumlock/quorumlock/bench/peer"

// rule tells the witness each step of a caller, and checks that the step is allowed.
type rule interface {
	// wants is called before an acquire, entered after a successful one, and leaving before the release.
	wants()
	entered() grant
	leaving()
}

// newRule returns the rule for the lock of caller i.
func (w *worker) newRule(i int) rule {
	slot, lock := w.slot(i), w.locks[i]
	if m, can := lock.(peer.Meeter); can && m.Meets() {
		return &meeting{witness: w.witness, slot: slot, callers: int64(w.Cell.Callers)}
	}
	h := &holding{witness: w.witness, own: slot, caller: w.First + i}
	h.sharer, _ = lock.(peer.Sharer)
	return h
}

// holding checks that at most the capacity of the lock is held. For most locks that is one.
type holding struct {
	witness     *Witness
	own, caller int
	sharer      peer.Sharer // nil for an exclusive lock
	claim       peer.Claim
}

func (h *holding) wants() {}

func (h *holding) entered() grant {
	h.claim = peer.Claim{Weight: 1, Limit: 1}
	if h.sharer != nil {
		h.claim = h.sharer.Claim()
	}
	return h.witness.enter(h.own+h.claim.Slot, h.caller, h.claim.Weight, h.claim.Limit)
}

func (h *holding) leaving() { h.witness.leave(h.own+h.claim.Slot, h.claim.Weight) }

// meeting checks that no caller continues before all callers have arrived.
type meeting struct {
	witness *Witness
	slot    int
	callers int64
	round   int64
	came    bool // in this cycle; a failed acquire is repeated
}

func (m *meeting) wants() {
	if !m.came {
		m.came = true
		m.witness.arrive(m.slot)
	}
}

func (m *meeting) entered() grant {
	m.round++
	m.came = false
	return grant{allowed: m.witness.arrived(m.slot) >= m.round*m.callers}
}

func (m *meeting) leaving() {}
