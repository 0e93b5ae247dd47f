package dispatch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

// A node that failed is probed soon at first, then less and less often.
const (
	probePauseMin = 20 * time.Millisecond
	probePauseMax = 500 * time.Millisecond
)

// health is the sender's view of its node: how long to wait for an answer, and whether to ask
// the node at all. It is guarded by the sender's mutex.
type health struct {
	least, most time.Duration

	// timeout follows the round-trip time as TCP's retransmission timer does (RFC
	// 6298), but with twice its value: 2 smoothed means and 8 deviations, within the bounds.
	timeout, mean, deviation time.Duration

	// down is set from a failed exchange until the next good one; err is the failure.
	down bool
	err  error
	// probeAt is when a node that is down may be asked again.
	probeAt  time.Duration
	failures int
}

func newHealth(least, most time.Duration) health {
	return health{least: least, most: most, timeout: most}
}

// answered records an exchange that took rtt, and reports whether the node was down.
func (h *health) answered(rtt time.Duration) (recovered bool) {
	// No caller waits longer than most. A larger rtt may be a suspend of this process.
	rtt = min(rtt, h.most)
	if h.mean == 0 {
		h.mean, h.deviation = rtt, rtt/2
	} else {
		h.deviation += (max(rtt-h.mean, h.mean-rtt) - h.deviation) / 4
		h.mean += (rtt - h.mean) / 8
	}
	h.timeout = min(max(2*h.mean+8*h.deviation, h.least), h.most)
	return h.up()
}

// up records that the node answers, and reports whether it was down.
func (h *health) up() (recovered bool) {
	recovered = h.down
	h.down, h.err, h.failures = false, nil, 0
	return recovered
}

// late records that an exchange exceeded the timeout: the next one gets more.
func (h *health) late() {
	h.timeout = min(2*h.timeout, h.most)
}

// failed records an exchange that failed, and reports whether the node was up before.
func (h *health) failed(now time.Duration, err error, jitter float64) (news bool) {
	news = !h.down
	h.down, h.err = true, err
	h.probeAt = now + decision.Backoff(h.failures, probePauseMin, probePauseMax, jitter)
	h.failures++
	return news
}

// Renewals are paced by the capacity of the nodes. A timer starts them, so nothing else would
// slow them down where nodes cannot keep up. Their queues would grow until calls are refused,
// and renewals that can still be in time would wait behind ones that cannot. A renewal
// that is sent later loses nothing as long as it is answered before the lease ends.

// maxRenewals is how many renewals of one need a sender queues, or more while it has more other calls:
// it sends full batches then, and acquisitions leave most of a batch to renewals.
const maxRenewals = 2 * maxBatch

// Capacity estimates how long a renewal that needs need nodes would take if it were sent now. ok is
// false while it should wait: too few nodes have capacity, and enough will once their queues are
// shorter. Events.CapacityFreed then says when to ask again. If too many nodes are down for the
// renewal to succeed, waiting does not help, and ok is true.
func (n *Nodes) Capacity(need int) (takes time.Duration, ok bool) {
	var buf [quorum.MaxNodes]time.Duration
	taking, full := buf[:0], 0
	for _, s := range n.senders {
		switch state, takes := s.capacity(need); state {
		case hasRoom:
			taking = append(taking, takes)
		case isFull:
			full++
		case refuses:
		}
	}
	switch {
	case len(taking) >= need:
		slices.Sort(taking)
		return taking[need-1], true
	case len(taking)+full >= need:
		return 0, false
	default:
		return 0, true
	}
}

// Crowded reports whether so many calls wait for the nodes that a call which needs need nodes should not be made, as
// its caller does not wait longer than patience. With every call made, the queues would grow until each call is
// answered when its caller is about to give up. So there is a margin for exchanges that take longer than most.
//
// A node with less than a quarter of a batch in its queue is never crowded: its latest pace may be of another time.
func (n *Nodes) Crowded(need int, patience time.Duration) bool {
	crowded := 0
	for _, s := range n.senders {
		if s.crowded(patience) {
			crowded++
		}
	}
	return crowded > len(n.senders)-need
}

func (s *sender) crowded(patience time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.length() >= maxBatch/4 && s.waitLocked()+s.health.mean+4*s.health.deviation > patience
}

// waitLocked estimates how long a call takes that is submitted now.
func (s *sender) waitLocked() time.Duration {
	return time.Duration(2+s.queue.length()/maxBatch) * s.health.mean
}

// capacityState says how a sender would treat a renewal.
type capacityState uint8

const (
	hasRoom capacityState = iota
	// isFull: it has as many such renewals as it should have, or its queue is full. It is sending, so
	// either it takes the next batch or its node fails, and CapacityFreed follows in both cases.
	isFull
	refuses
)

// capacity says how the sender would treat a renewal that needs need nodes. takes
// estimates how long that would take at the latest pace: the exchange under way, those
// before the renewal, and its own.
func (s *sender) capacity(need int) (state capacityState, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed, s.flights.overdue > 0, s.pausedLocked(false):
		return refuses, 0
	case s.queue.length() >= maxQueue, s.queue.full(need):
		return isFull, 0
	default:
		return hasRoom, s.waitLocked()
	}
}
