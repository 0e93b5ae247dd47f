package dispatch

import (
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
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

// LateReceiver is a [Receiver] that can use an answer that comes after the deadline of its call.
type LateReceiver interface {
	// AnswerLate is called at most once for a call of which Answer says that its outcome is unknown. Either may come
	// first, as they come from two goroutines. The rules of Answer hold.
	AnswerLate(c *Call, r *wire.Reply)
}

// receiver is a function as a Receiver.
type receiver func(r *wire.Reply)

func (f receiver) Answer(_ *Call, r *wire.Reply) { f(r) }

// Ignore is a receiver for calls whose answer matters to no caller.
var Ignore Receiver = receiver(func(*wire.Reply) {})

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

// failureOf returns why an exchange shows that the node is down, or nil. One operation that the
// server answered, even with an error, shows that it is up.
func failureOf(replies []wire.Reply) error {
	for _, r := range replies {
		if r.Err == nil || !r.Unsent && isAnswer(r.Err) {
			return nil
		}
	}
	return replies[0].Err
}

// isAnswer reports whether an error came from a working server.
func isAnswer(err error) bool {
	var nodeErr *node.Error
	if !errors.As(err, &nodeErr) {
		return false
	}
	switch nodeErr.Reason {
	case node.ErrWrongType, node.ErrRejected, node.ErrAuth, node.ErrRecovering, node.ErrSettings, node.ErrClock, node.ErrSameServer: //nolint:errorlint // a reason is never wrapped
		return true
	default:
		return false
	}
}
