package faultinject

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Effect is what happens to a call of a [Node]: it runs the call, fails it, or both. Operations that it leaves
// unanswered fail with node.ErrProtocol and a cause that says so. It may wait, and may be called concurrently. A test
// that needs another one writes a function: for each third call, one in ten by chance, or a call that waits for the test.
//
// A fault concerns the connection, so it should hit all operations of a call.
type Effect func(ctx context.Context, x *Exchange)

// Exchange is one call of a [Node]. It is valid until the call returns; code that needs data longer must copy it.
type Exchange struct {
	// Node is the name of the node.
	Node string
	// Probe marks a call of Probe; otherwise it is a call of Do.
	Probe bool
	// Ops are the operations, none for a probe. They must not be changed. A busy client sends many in one exchange.
	Ops []wire.Op
	// Replies are the answers: Replies[i] answers Ops[i]. A probe has one reply, of which only Err counts.
	Replies []wire.Reply

	node *Node
}

// errUnanswered is the cause for operations that an effect did not answer.
var errUnanswered = errors.New("faultinject: an effect has not answered")

// Run runs the call on the inner node, which fills the Replies. To run it twice is a duplicate.
func (x *Exchange) Run(ctx context.Context) {
	if x.Probe {
		x.Replies[0] = wire.Reply{Err: x.node.inner.Probe(ctx)}
		return
	}
	x.node.inner.Do(ctx, x.Ops, x.Replies)
}

// Fail answers all operations, or the probe, with an error, which becomes a *node.Error. The reason is an error of
// package node, or a *node.Error that has one and a cause. The caller must set unsent only if nothing reached the
// node.
func (x *Exchange) Fail(reason error, unsent bool) {
	for i := range x.Replies {
		x.fail(i, reason, unsent)
	}
}

// fail answers one operation, or the probe, with an error.
func (x *Exchange) fail(i int, reason error, unsent bool) {
	failure := &node.Error{Node: x.Node, Reason: reason}
	var given *node.Error
	if errors.As(reason, &given) {
		failure.Reason, failure.Err = given.Reason, given.Err
	}
	if !x.Probe {
		failure.Op = x.Ops[i].Kind.String()
	}
	x.Replies[i] = wire.Reply{Err: failure, Unsent: unsent}
}

// lose replaces answers by an error. Operations that did not reach the node, and failed probes, keep their error.
func (x *Exchange) lose(reason error) {
	for i, r := range x.Replies {
		if !r.Unsent && (!x.Probe || r.Err == nil) {
			x.fail(i, reason, false)
		}
	}
}

// Only lets an effect see the calls that have an operation of one of the kinds. Others, and probes, run.
func Only(e Effect, kinds ...wire.Kind) Effect {
	return func(ctx context.Context, x *Exchange) {
		if slices.ContainsFunc(x.Ops, func(op wire.Op) bool { return slices.Contains(kinds, op.Kind) }) {
			e(ctx, x)
			return
		}
		x.Run(ctx)
	}
}

// FailBefore runs nothing, as if no connection could be made: the replies are Unsent. The reason is an error of package
// node, such as node.ErrUnreachable, or a *node.Error that has one and a cause besides.
func FailBefore(reason error) Effect {
	return func(_ context.Context, x *Exchange) { x.Fail(reason, true) }
}

// FailAfter runs everything, and loses the answers with the connection: the replies are not Unsent. Operations that
// did not reach the node keep their error. For the reason see [FailBefore].
func FailAfter(reason error) Effect {
	return func(ctx context.Context, x *Exchange) {
		x.Run(ctx)
		x.lose(reason)
	}
}

// Delay delays commands on the way to the node by before, and answers by after. If that exceeds node.DefaultTimeout,
// the call fails with node.ErrTimeout then, and the commands are dropped where they are. So an endless delay is a node
// that hangs.
func Delay(before, after time.Duration) Effect {
	return func(ctx context.Context, x *Exchange) {
		if err := x.sleep(ctx, before, node.DefaultTimeout); err != nil {
			x.Fail(err, !errors.Is(err, node.ErrTimeout)) // after a timeout, the caller cannot know that nothing ran
			return
		}
		x.Run(ctx)
		if err := x.sleep(ctx, after, node.DefaultTimeout-before); err != nil {
			x.lose(err)
		}
	}
}

// sleep waits for d. An error is the reason why the call fails meanwhile: node.ErrTimeout if d is longer than most,
// node.ErrCanceled, or node.ErrClosed.
func (x *Exchange) sleep(ctx context.Context, d, most time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(min(d, most))
	defer timer.Stop()
	select {
	case <-timer.C:
		if d > most {
			return node.ErrTimeout
		}
		return nil
	case <-x.node.ctx.Done():
		return node.ErrClosed
	case <-ctx.Done():
		return node.ErrCanceled
	}
}
