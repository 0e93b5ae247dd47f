package worker

import "github.com/quorumlock/quorumlock/bench/peer"

// rule has the witness see what a caller does, and tell whether it may.
type rule interface {
	// wants is called before an acquire, entered when it has succeeded, and leaving before the
	// release.
	wants()
	entered() grant
	leaving()
}

// newRule is that of a caller's lock.
func (w *worker) newRule(i int) rule {
	slot, lock := w.slot(i), w.locks[i]
	if m, can := lock.(peer.Meeter); can && m.Meets() {
		return &meeting{witness: w.witness, slot: slot, callers: int64(w.Cell.Callers)}
	}
	h := &holding{witness: w.witness, own: slot, caller: w.First + i}
	h.sharer, _ = lock.(peer.Sharer)
	return h
}

// holding lets nobody hold more than there is: of most locks, one.
type holding struct {
	witness     *Witness
	own, caller int
	sharer      peer.Sharer // nil for a lock that has one holder
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

// meeting lets nobody go on before all have come.
type meeting struct {
	witness *Witness
	slot    int
	callers int64
	round   int64
	came    bool // this time; an acquire that failed is repeated
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
