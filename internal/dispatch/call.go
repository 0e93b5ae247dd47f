package dispatch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Call is one operation on its way to one node. Its fields are set before it is submitted.
type Call struct {
	// Op may be shared with calls to other nodes: it is replaced, never changed.
	Op *wire.Op
	To Receiver
	// Sent is the local time just before the operation was sent last, set by the sender.
	Sent time.Duration
	// Until makes the call an undo: it is repeated until it succeeds, or until this time.
	// 0 for all other calls, which are sent once.
	Until time.Duration
	// Deadline is the local time from which the receiver does not wait for the answer; 0 if
	// only the timeout of the exchange bounds that. See also [LateReceiver].
	Deadline time.Duration
	// node is the index of the node, which is below quorum.MaxNodes.
	node uint8
	// Renews is, for a renewal, how many nodes it needs; 0 for all other calls.
	Renews uint8
	// Urgent calls are sent to a node that is down at once, without waiting for the next
	// probe: a person is waiting.
	Urgent bool
	// Front puts an undo ahead of all calls that are queued. It is set where the operation it undoes was sent
	// before them, and no other operation of its owner is queued.
	Front bool
	place place
	// retried is set for the one undo that tries a node which rejected it before.
	retried bool
	// answered is set once the receiver has its answer. An undo may be repeated after that.
	answered bool
	// late is set if it got that at its deadline, after the operation was sent.
	late bool
}

// place says whether a call can be withdrawn.
type place uint8

const (
	// elsewhere: it cannot, as it was not submitted yet, was taken from the queue, or is an undo of earlier calls.
	elsewhere place = iota
	queued
	withdrawn
)

// Node is the index of the node.
func (c *Call) Node() int { return int(c.node) }

func (c *Call) setNode(i int) { c.node = uint8(i) } //nolint:gosec // below quorum.MaxNodes

// Receiver gets the answer to a call.
type Receiver interface {
	// Answer is called exactly once for each call that Submit has accepted and that was not withdrawn, with no
	// lock of this package held. It must not keep r.
	Answer(c *Call, r *wire.Reply)
}

// Ignore is a receiver for calls whose answer matters to no caller.
var Ignore Receiver = ignore{}

type ignore struct{}

func (ignore) Answer(*Call, *wire.Reply) {}

// inlineNodes is how many nodes most deployments have at most.
const inlineNodes = 5

// Calls are the calls of one operation to every node, in one piece of memory. It must not be
// copied once Aim was called.
type Calls struct {
	Op     wire.Op
	calls  []Call
	inline [inlineNodes]Call
}

// NewCalls returns calls of an operation to each of the given number of nodes.
func NewCalls(nodes int, op wire.Op) *Calls {
	c := &Calls{}
	c.Aim(nodes, op)
	return c
}

// Aim prepares zero Calls for an operation on each of the given number of nodes.
func (c *Calls) Aim(nodes int, op wire.Op) {
	c.Op = op
	if nodes <= inlineNodes {
		c.calls = c.inline[:nodes]
	} else {
		c.calls = make([]Call, nodes)
	}
	for i := range c.calls {
		c.calls[i].Op = &c.Op
		c.calls[i].setNode(i)
	}
}

// To is the call to node i.
func (c *Calls) To(i int) *Call { return &c.calls[i] }

// callQueue has the calls that wait for an exchange with a node. The sender's mutex guards it.
type callQueue struct {
	// undos go before calls: they free what earlier exchanges have left on the node.
	undos []*Call
	// calls are in the order of their submission. withdrawn of them are not sent any more.
	calls     []*Call
	withdrawn int
	// renewals counts the renewals by how many nodes they need.
	renewals []int
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
	clear(q.renewals)
	*q = callQueue{renewals: q.renewals}
	return slices.DeleteFunc(all, func(c *Call) bool { return c.place == withdrawn })
}

// has reports whether a call is to be sent for which is returns true.
func (q *callQueue) has(is func(*Call) bool) bool {
	return slices.ContainsFunc(q.undos, is) || slices.ContainsFunc(q.calls, func(c *Call) bool { return c.place != withdrawn && is(c) })
}

// count counts a call that enters the queue or leaves it, if it is a renewal.
func (q *callQueue) count(c *Call, by int) {
	if c.Renews > 0 {
		q.renewals[c.Renews] += by
	}
}

// full reports whether the queue has its limit of renewals that need need nodes. Renewals are
// counted per quorum size: otherwise majority locks would fill every free place. Renewals of
// MultiLocks need capacity on all nodes at once, and would starve.
func (q *callQueue) full(need int) bool {
	mine := q.renewals[need]
	if mine < maxRenewals {
		return false
	}
	others := q.length()
	for _, n := range q.renewals {
		others -= n
	}
	return mine >= others
}

// fill moves calls from the queue into a flight, the undos first: maxBatch of both. While more undos wait, no
// call goes before them. Otherwise the undos of one exchange would delay all other calls by another one.
//
// Calls that share a name with another flight stay, and so do calls that share one with an earlier call that stays.
// names are those of other flights.
func (q *callQueue) fill(f *flight, names heldNames) {
	var undos, calls int // how many stay because of their names
	q.undos, undos = q.move(q.undos, f, names)
	if undos == len(q.undos) {
		q.calls, calls = q.move(q.calls, f, names)
	}
	for _, c := range q.undos[:undos] {
		names.count(c.Op, -1)
	}
	for _, c := range q.calls[:calls] {
		names.count(c.Op, -1)
	}
}

// move moves up to maxBatch calls from a list into a flight, and forgets withdrawn ones. It returns the rest
// of the list. The first held of them stay because of their names, which now count as held.
func (q *callQueue) move(list []*Call, f *flight, names heldNames) (rest []*Call, held int) {
	rest = list[:0]
	looked, room := 0, len(f.batch)+maxBatch
	for ; looked < len(list) && len(f.batch) < room; looked++ {
		switch c := list[looked]; {
		case c.place == withdrawn:
			q.withdrawn--
		case names.has(c.Op):
			names.count(c.Op, 1)
			rest = append(rest, c)
		default:
			c.place = elsewhere
			q.count(c, -1)
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
	s.queue.count(c, -1)
	s.queue.withdrawn++
	s.queue.dropWithdrawn()
	s.nodes.env.Events.CapacityFreed()
	return true
}
