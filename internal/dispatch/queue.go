package dispatch

import "slices"

// callQueue has the calls that wait for an exchange with a node. The sender's mutex guards it.
type callQueue struct {
	// undos go before calls: they free what earlier exchanges have left on the node.
	undos []*Call
	// calls are in the order of their submission. withdrawn of them are not sent any more.
	calls     []*Call
	withdrawn int
}

// length is how many calls are to be sent.
func (q *callQueue) length() int { return len(q.undos) + len(q.calls) - q.withdrawn }

// dropWithdrawn forgets the withdrawn calls once they are the greater part. So a withdrawal takes the same time on
// average, however long the queue is.
func (q *callQueue) dropWithdrawn() {
	if q.withdrawn > len(q.calls)/2 {
		q.calls = slices.DeleteFunc(q.calls, func(c *Call) bool { return c.place == withdrawn })
		q.withdrawn = 0
	}
}

// clear empties the queue, and returns what was to be sent, in order.
func (q *callQueue) clear() []*Call {
	all := append(q.undos, q.calls...)
	*q = callQueue{}
	return slices.DeleteFunc(all, func(c *Call) bool { return c.place == withdrawn })
}

// has reports whether a call is to be sent for which is returns true.
func (q *callQueue) has(is func(*Call) bool) bool {
	return slices.ContainsFunc(q.undos, is) || slices.ContainsFunc(q.calls, func(c *Call) bool { return c.place != withdrawn && is(c) })
}

// fillLocked moves calls from the queue into a flight, the undos first: maxBatch of both. While more undos wait, no
// call goes before them. Otherwise the undos of one exchange would delay all other calls by another one.
//
// Calls that share a name with another flight stay, and so do calls that share one with an earlier call that stays.
func (s *sender) fillLocked(f *flight) {
	overlaps := len(s.flights) > 0
	if overlaps {
		s.holdLocked()
	}
	var undos, calls int // how many stay because of their names
	s.queue.undos, undos = s.moveLocked(s.queue.undos, f, overlaps)
	if undos == len(s.queue.undos) {
		s.queue.calls, calls = s.moveLocked(s.queue.calls, f, overlaps)
	}
	for _, c := range s.queue.undos[:undos] {
		s.countNamesLocked(c.Op, -1)
	}
	for _, c := range s.queue.calls[:calls] {
		s.countNamesLocked(c.Op, -1)
	}
}

// moveLocked moves up to maxBatch calls from a list into a flight, and forgets withdrawn ones. It returns the rest
// of the list. The first held of them stay because of their names, which now count as held.
func (s *sender) moveLocked(list []*Call, f *flight, overlaps bool) (rest []*Call, held int) {
	rest = list[:0]
	looked, room := 0, len(f.batch)+maxBatch
	for ; looked < len(list) && len(f.batch) < room; looked++ {
		switch c := list[looked]; {
		case c.place == withdrawn:
			s.queue.withdrawn--
		case overlaps && s.isHeldLocked(c.Op):
			s.countNamesLocked(c.Op, 1)
			rest = append(rest, c)
		default:
			c.place = elsewhere
			f.batch = append(f.batch, c)
		}
	}
	held = len(rest)
	rest = append(rest, list[looked:]...)
	clear(list[len(rest):])
	return rest, held
}

// withdraw implements Nodes.Withdraw.
func (s *sender) withdraw(c *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.place != queued || c.answered || c.Until != 0 {
		return false
	}
	c.place = withdrawn
	s.countRenewalLocked(c, -1)
	s.queue.withdrawn++
	s.queue.dropWithdrawn()
	s.nodes.env.Events.CapacityFreed()
	return true
}
