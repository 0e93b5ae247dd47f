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
	// identity is the server's identity when the flight began: another flight may connect the node to another server
	// before this one is settled.
	identity string
	// holds is set if flights.names counts its names.
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

// flights are the exchanges of one sender that are under way. The sender's mutex guards them.
type flights struct {
	node wire.Endpoint
	// all are in the order in which they began. spare has memory for more.
	all, spare []*flight
	// unanswered and overdue count flights.
	unanswered, overdue int
	// names counts the uses of each name in flights that hold their names.
	names heldNames
}

// depth is how many exchanges may be under way.
func (x *flights) depth() int {
	roundTrip := x.node.RoundTrip()
	if roundTrip < farAway {
		return 1
	}
	return int(min(roundTrip/flightGap, maxFlights))
}

// admit reports whether to send an operation now in one more flight, since it shares no name with those under way.
func (x *flights) admit(op *wire.Op) bool {
	if len(x.all) >= x.depth() || x.overdue > 0 {
		return false
	}
	x.hold()
	return !x.names.has(op)
}

// make returns a flight that has not begun.
func (x *flights) make() *flight {
	if n := len(x.spare); n > 0 {
		f := x.spare[n-1]
		x.spare = x.spare[:n-1]
		return f
	}
	return &flight{}
}

func (x *flights) begin(f *flight, now, timeout time.Duration) {
	f.began, f.deadline = now, now+timeout
	x.all = append(x.all, f)
	x.unanswered++
}

// late notes that a flight is overdue.
func (x *flights) late(f *flight) {
	f.overdue = true
	x.overdue++
}

// answered ends the timeout of a flight.
func (x *flights) answered(f *flight) {
	f.deadline = 0
	x.unanswered--
	if f.overdue {
		x.overdue--
	}
}

func (x *flights) end(f *flight) {
	i := slices.Index(x.all, f)
	x.all = slices.Delete(x.all, i, i+1)
	if f.holds {
		x.names.countAll(f, -1)
	}
	clear(f.batch)
	clear(f.ops)
	*f = flight{batch: f.batch[:0], ops: f.ops[:0], replies: f.replies[:0]}
	x.spare = append(x.spare, f)
}

// hold makes all flights hold their names. On a local network they never need to.
func (x *flights) hold() {
	for _, f := range x.all {
		if !f.holds {
			if x.names == nil {
				x.names = make(heldNames)
			}
			f.holds = true
			x.names.countAll(f, 1)
		}
	}
}

// heldNames counts the uses of names by operations.
type heldNames map[string]int

func (h heldNames) countAll(f *flight, by int) {
	for i := range f.ops {
		h.count(&f.ops[i], by)
	}
}

// count counts the names of an operation that begins or ceases to hold them.
func (h heldNames) count(op *wire.Op, by int) {
	for name := range sharedNames(op) {
		if h[name] += by; h[name] == 0 {
			delete(h, name)
		}
	}
}

func (h heldNames) has(op *wire.Op) bool {
	if len(h) == 0 {
		return false
	}
	for name := range sharedNames(op) {
		if h[name] > 0 {
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
