package dispatch

import (
	"iter"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// flight is one exchange under way: the calls of a batch, or a probe without calls.
//
// A call that comes during an exchange waits for the rest of it, which is half of a round trip on
// average. Where the round trip is long against the work, exchanges overlap instead. The order
// between names does not matter, so only calls that share a name or a pool with a flight wait for
// it. All operations of an owner or a waiter share one.
type flight struct {
	batch   []*Call
	ops     []wire.Op
	replies []wire.Reply
	// began is when it was sent. deadline is when it is overdue, or 0 once it was answered.
	began, deadline time.Duration
	// overdue is set once it is: its receivers have been told, and no caller waits for it.
	overdue bool
	// excused is set if no answer came, and that says nothing about the node: its connection broke, and it
	// has a new one.
	excused bool
	// identity is the server's identity when the flight began, if flights may overlap: another flight
	// may connect the node to another server before this one is settled.
	identity string
	// holds is set if sender.held counts its names.
	holds bool
}

const (
	// maxFlights bounds the exchanges with one node that are under way.
	maxFlights = 16
	// farAway is the least round trip at which exchanges overlap. On a busy local network it is far shorter.
	farAway = time.Millisecond
	// flightGap is the part of a round trip for which there is one more flight. It is about the
	// work of a batch, on both sides.
	flightGap = 250 * time.Microsecond
)

// depthLocked is how many exchanges may be under way.
func (s *sender) depthLocked() int {
	if s.pipeliner == nil {
		return 1
	}
	roundTrip := s.pipeliner.RoundTrip()
	if roundTrip < farAway {
		return 1
	}
	return int(min(roundTrip/flightGap, maxFlights))
}

// overlapsLocked reports whether to send an operation now, beside the flights. If one of them has
// been answered, its goroutine takes the operation.
func (s *sender) overlapsLocked(op *wire.Op) bool {
	if s.pipeliner == nil || s.workers != len(s.flights) || s.workers >= s.depthLocked() ||
		s.asking || s.health.down || s.overdue > 0 {
		return false
	}
	if slices.ContainsFunc(s.flights, func(f *flight) bool { return f.deadline == 0 }) {
		return false
	}
	s.holdLocked()
	return !s.isHeldLocked(op)
}

// newFlightLocked returns a flight that has not begun.
func (s *sender) newFlightLocked() *flight {
	if n := len(s.spare); n > 0 {
		f := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return f
	}
	return &flight{}
}

// beginLocked begins a flight, with its timeout.
func (s *sender) beginLocked(f *flight, now, timeout time.Duration) {
	f.began, f.deadline = now, now+timeout
	s.flights = append(s.flights, f)
	s.armTimeoutLocked(now, f.deadline)
}

// answeredLocked ends the timeout of a flight.
func (s *sender) answeredLocked(f *flight) {
	f.deadline = 0
	if f.overdue {
		s.overdue--
	}
}

// endLocked ends a flight.
func (s *sender) endLocked(f *flight) {
	i := slices.Index(s.flights, f)
	s.flights = slices.Delete(s.flights, i, i+1)
	if f.holds {
		s.countAllNamesLocked(f, -1)
	}
	clear(f.batch)
	clear(f.ops)
	*f = flight{batch: f.batch[:0], ops: f.ops[:0], replies: f.replies[:0]}
	s.spare = append(s.spare, f)
}

// holdLocked makes all flights hold their names.
func (s *sender) holdLocked() {
	if s.held == nil {
		s.held = make(map[string]int)
	}
	for _, f := range s.flights {
		if !f.holds {
			f.holds = true
			s.countAllNamesLocked(f, 1)
		}
	}
}

func (s *sender) countAllNamesLocked(f *flight, by int) {
	for i := range f.ops {
		s.countNamesLocked(&f.ops[i], by)
	}
}

// countNamesLocked counts the names of an operation that begins or ceases to hold them.
func (s *sender) countNamesLocked(op *wire.Op, by int) {
	for name := range sharedNames(op) {
		if s.held[name] += by; s.held[name] == 0 {
			delete(s.held, name)
		}
	}
}

func (s *sender) isHeldLocked(op *wire.Op) bool {
	for name := range sharedNames(op) {
		if s.held[name] > 0 {
			return true
		}
	}
	return false
}

// sharedNames are the names of an operation, and of its pool.
func sharedNames(op *wire.Op) iter.Seq[string] {
	return func(yield func(string) bool) {
		if op.Pool.Name != "" && !yield(op.Pool.Name) {
			return
		}
		for _, name := range op.Names {
			if !yield(name) {
				return
			}
		}
	}
}
