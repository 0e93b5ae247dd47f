package dispatch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// Renewals are paced by the capacity of the nodes. A timer starts them, so nothing else would
// slow them down where nodes cannot keep up. Their queues would grow until calls are refused,
// and renewals that can still be in time would wait behind ones that cannot. A renewal
// that is sent later loses nothing as long as it is answered before the lease ends.

// Capacity estimates how long a renewal that needs need nodes would take if it were sent now. ok is
// false while it should wait: too few nodes have capacity, and enough will once their queues are
// shorter. Events.CapacityFreed then says when to ask again. If too many nodes are down for the
// renewal to succeed, waiting does not help, and ok is true.
func (n *Nodes) Capacity(need int) (takes time.Duration, ok bool) {
	var buf [quorum.MaxNodes]time.Duration
	taking, full := buf[:0], 0
	for _, s := range n.senders {
		switch takes, room, refuses := s.capacity(need); {
		case refuses:
		case room:
			taking = append(taking, takes)
		default:
			full++
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

// capacity estimates how long a renewal that needs need nodes would take at the latest pace: the exchange under way,
// those before the renewal, and its own. There is no room if as many such renewals are queued as should be, or the queue is
// full. The sender is sending then, so either it takes the next batch or its node fails, and CapacityFreed follows in
// both cases.
func (s *sender) capacity(need int) (takes time.Duration, room, refuses bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refuses = s.closed || s.flights.overdue > 0 || s.pausedLocked(false)
	return s.waitLocked(), s.queue.length() < maxQueue && !s.queue.full(need), refuses
}

// latency implements Nodes.Latency.
func (s *sender) latency() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.mean
}
