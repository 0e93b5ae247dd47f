package faultinject

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Effect is the action of a [Rule] on an exchange, between the caller and the rest of the path. It passes the
// exchange on by next, and fails it by [Exchange.Fail]; it must do at least one of both. Operations that it leaves
// unanswered fail with node.ErrProtocol and a cause that says so. It may wait by [Exchange.Sleep], and may be called
// concurrently.
type Effect func(ctx context.Context, x *Exchange, next Next)

// FailBefore runs nothing, as if no connection could be made: the replies are Unsent. The reason is an error of package
// node, such as node.ErrUnreachable, or a *node.Error that has one and a cause besides.
func FailBefore(reason error) Effect {
	return func(_ context.Context, x *Exchange, _ Next) { x.Fail(reason, true) }
}

// FailAfter runs everything, and loses the answers with the connection: the replies are not Unsent. Operations that
// did not reach the node keep their error. For the reason see [FailBefore].
func FailAfter(reason error) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		next(ctx, x)
		x.lose(reason)
	}
}

// Reject makes the node answer with an error, and runs nothing: node.ErrRejected for a server without memory,
// node.ErrAuth for one with another password. The reply is not Unsent. For the reason see [FailBefore].
func Reject(reason error) Effect {
	return func(_ context.Context, x *Exchange, _ Next) { x.Fail(reason, false) }
}

// Delay delays commands on the way to the node by before, and answers by after. If that exceeds the timeout of the
// call, the call fails with node.ErrTimeout and the commands are dropped where they are. For commands that still
// arrive see [Late].
func Delay(before, after time.Duration) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		if err := x.Sleep(ctx, before); err != nil {
			x.fail(err)
			return
		}
		next(ctx, x)
		if err := x.Sleep(ctx, after); err != nil {
			x.lose(err)
		}
	}
}

// Duplicate runs everything twice, immediately one after the other. The caller gets the first answers. A probe is
// duplicated too.
func Duplicate() Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		second := x.Copy()
		next(ctx, x)
		next(ctx, second)
	}
}

// Late fails a call with node.ErrTimeout after the node's timeout, or earlier when its context ends. The commands
// still run some time later, as on a hung server that has them in its buffers and wakes. A probe just fails.
//
// This deliberately breaks the promise of node.Node that calls take effect in their order.
func Late(by time.Duration) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		x.Fail(x.Sleep(ctx, math.MaxInt64), false)
		if !x.Probe {
			x.Later(by, next)
		}
	}
}

// Stall makes calls hang until the rule is removed; then they run. A call fails with node.ErrTimeout after the node's
// timeout, and with node.ErrCanceled when its context ends. Neither runs later.
func Stall() Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		if err := x.await(ctx, x.removed, time.Until(x.deadline)); err != nil {
			x.fail(err)
			return
		}
		next(ctx, x)
	}
}

// CutAfter breaks the connection in the middle of an exchange: the first k operations run and are answered, the
// others do not run. Those fail with node.ErrUnreachable and are not Unsent, because the caller cannot know what the
// node has read. An exchange of at most k operations, and a probe, are not affected.
func CutAfter(k int) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		if x.Probe || len(x.Ops) <= k {
			next(ctx, x)
			return
		}
		if k > 0 {
			next(ctx, x.Slice(0, k))
		}
		x.Slice(max(k, 0), len(x.Ops)).Fail(node.ErrUnreachable, false)
	}
}

// fail ends an exchange that waited before anything ran. After a timeout, the caller cannot know that nothing ran.
func (x *Exchange) fail(reason error) {
	x.Fail(reason, !errors.Is(reason, node.ErrTimeout))
}
