package faultinject

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Effect is what a [Rule] does to an exchange: it stands between the caller and what is
// next. It lets the exchange through by next, and fails it by [Exchange.Fail]; it must do at
// least one of both: what it leaves unanswered fails with node.ErrProtocol, and a cause that
// says so. It may wait, by [Exchange.Sleep], and is called concurrently where the node is.
type Effect func(ctx context.Context, x *Exchange, next Next)

// Chain is several effects at once: the first is around the others, as with rules that are
// added one after the other.
func Chain(effects ...Effect) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		if len(effects) == 0 {
			next(ctx, x)
			return
		}
		effects[0](ctx, x, func(ctx context.Context, y *Exchange) {
			Chain(effects[1:]...)(ctx, y, next)
		})
	}
}

// FailBefore has nothing run: no connection can be made. The reason is node.ErrUnreachable,
// and the replies are Unsent.
func FailBefore() Effect { return FailBeforeWith(node.ErrUnreachable) }

// FailBeforeWith is [FailBefore] with another reason: an error of package node, or a
// *node.Error that has one and a cause besides.
func FailBeforeWith(reason error) Effect {
	return func(_ context.Context, x *Exchange, _ Next) { x.Fail(reason, true) }
}

// FailAfter has everything run, and the answers lost with the connection: the reason is
// node.ErrUnreachable, and the replies are not Unsent. What has not reached the node anyway
// keeps the error that it has.
func FailAfter() Effect { return FailAfterWith(node.ErrUnreachable) }

// FailAfterWith is [FailAfter] with another reason; see [FailBeforeWith].
func FailAfterWith(reason error) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		next(ctx, x)
		x.lose(reason)
	}
}

// Reject has the node answer with an error, and nothing run: node.ErrRejected for a server
// without memory, node.ErrAuth for one that has another password now. The reply is not
// Unsent. For the reason see [FailBeforeWith]. Where no connection can be made at all, that
// is [FailBefore].
func Reject(reason error) Effect {
	return func(_ context.Context, x *Exchange, _ Next) { x.Fail(reason, false) }
}

// Delay has commands take a while to the node, and answers back. What takes longer than the
// timeout of the call fails then with node.ErrTimeout, and is dropped where it is; for
// commands that arrive all the same see [Late].
func Delay(before, after time.Duration) Effect {
	return delay(func(*Exchange) (time.Duration, time.Duration) { return before, after })
}

// Jitter is [Delay] by a random time, up to before on the way to the node, and up to after
// on the way back.
func Jitter(before, after time.Duration) Effect {
	return delay(func(x *Exchange) (time.Duration, time.Duration) {
		return upTo(x, before), upTo(x, after)
	})
}

func delay(draw func(*Exchange) (before, after time.Duration)) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		before, after := draw(x)
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

// upTo is a random time up to the most, both ends included.
func upTo(x *Exchange, most time.Duration) time.Duration {
	return time.Duration(x.Rand.Uint64N(uint64(max(most, 0)) + 1))
}

// Duplicate has everything run twice, one time right after the other. The caller gets the
// answers to the first. A probe is doubled too.
func Duplicate() Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		second := x.Copy()
		next(ctx, x)
		next(ctx, second)
	}
}

// DuplicateLate has everything run, and once more some time after the answer, when the call
// may have returned and others may have run; a probe only once.
//
// This breaks, on purpose, the promise of node.Node that calls take effect in their order.
func DuplicateLate(after time.Duration) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		next(ctx, x)
		if !x.Probe {
			x.Later(after, next)
		}
	}
}

// Late has a call fail with node.ErrTimeout when it has taken as long as the node allows, or
// earlier when its context ends, and has the commands run all the same, some time after
// that: a server that hung has them in its buffers, and wakes. A probe just fails.
//
// This breaks, on purpose, the promise of node.Node that calls take effect in their order.
func Late(by time.Duration) Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		x.Fail(x.Sleep(ctx, math.MaxInt64), false)
		if !x.Probe {
			x.Later(by, next)
		}
	}
}

// Stall has calls hang until the rule is removed; then they run. A call that has taken as
// long as the node allows fails with node.ErrTimeout, and one whose context ends with
// node.ErrCanceled; neither is run later.
func Stall() Effect {
	return func(ctx context.Context, x *Exchange, next Next) {
		if err := x.await(ctx, x.removed, time.Until(x.deadline)); err != nil {
			x.fail(err)
			return
		}
		next(ctx, x)
	}
}

// CutAfter has the connection break in the middle of an exchange: the first k operations
// run and are answered, the others do not run. Those fail with node.ErrUnreachable, and are
// not Unsent, as the caller cannot know what the node has read. An exchange of no more than
// k operations, and a probe, is not affected.
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

// fail ends an exchange that waited before anything ran. A caller whose time is up cannot
// know that nothing did.
func (x *Exchange) fail(reason error) {
	x.Fail(reason, !errors.Is(reason, node.ErrTimeout))
}
