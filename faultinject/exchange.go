package faultinject

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Exchange is one call of a [Node], or a part of one, as it is seen by a [Predicate] and an
// [Effect]. It is valid until the call returns; whoever needs it longer copies what it needs.
type Exchange struct {
	// Node is the name of the node.
	Node string
	// N is the number of the call among those of the node, Do and Probe alike, from 1.
	N int
	// Probe says that this is a call of Probe; else it is one of Do.
	Probe bool
	// Ops are the operations, none for a probe. They must not be changed. A client that is
	// busy sends many in one exchange.
	Ops []node.Op
	// Replies are the answers that an Effect fills, or has filled by those behind it: that
	// to Ops[i] is Replies[i]. For a probe there is one, of which only Err counts. What
	// they are before is undefined to a Predicate; an Effect gets them as failed.
	Replies []node.Reply
	// Rand is for chance. It is seeded for this call and this rule, so that the same call
	// meets the same fate in each run; see [Seed]. It must not be used concurrently, nor
	// after the call.
	Rand *rand.Rand

	node *Node
	// fate is what Rand is seeded from; copies counts those made of the exchange, which
	// have fates of their own.
	fate   uint64
	copies uint64
	// deadline is when the call has taken too long.
	deadline time.Time
	// removed is closed when the rule is removed that is being applied.
	removed <-chan struct{}
}

// ofEffect tells the chance of an effect from that of a predicate, for which there is the
// index of an operation, and from that of copies.
const ofEffect = 1<<64 - 1

// chance makes the Rand of a certain fate.
func chance(fate uint64) *rand.Rand { return rand.New(rand.NewPCG(fate, 0)) }

// Next is what lies behind an [Effect]: other rules, and then the node. It fills the
// Replies of the exchange. It may be called more than once, and with another exchange.
type Next func(ctx context.Context, x *Exchange)

// Fail answers all operations, or the probe, with an error, which becomes a *node.Error.
// The reason is one of the errors of package node, or a *node.Error that has one and a
// cause besides. What is unsent has certainly not reached the node: it is up to the caller
// that this is so.
func (x *Exchange) Fail(reason error, unsent bool) {
	var cause error
	if given, ok := errors.AsType[*node.Error](reason); ok {
		reason, cause = given.Reason, given.Err
	}
	for i := range x.Replies {
		x.Replies[i] = node.Reply{
			Err:    &node.Error{Node: x.Node, Op: x.kind(i), Reason: reason, Err: cause},
			Unsent: unsent,
		}
	}
}

// lose replaces answers by an error. What has not reached the node, and a probe that has
// failed, keeps the error that it has.
func (x *Exchange) lose(reason error) {
	for i, r := range x.Replies {
		if !r.Unsent && (!x.Probe || r.Err == nil) {
			x.Slice(i, i+1).Fail(reason, false)
		}
	}
}

// Slice is the part of an exchange with the operations from i up to j, and their replies;
// of a probe there are no parts, and it stands for itself.
func (x *Exchange) Slice(i, j int) *Exchange {
	part := *x
	if !x.Probe {
		part.Ops, part.Replies = x.Ops[i:j:j], x.Replies[i:j:j]
		part.fate = mix(x.fate, uint64(i))
	}
	return &part
}

// Copy is an exchange with the same operations, and with replies and a chance of its own.
func (x *Exchange) Copy() *Exchange {
	twin := *x
	x.copies++
	twin.fate, twin.copies = mix(x.fate, ofEffect-x.copies), 0
	twin.Rand = chance(mix(twin.fate, ofEffect))
	twin.Replies = make([]node.Reply, len(x.Replies))
	return &twin
}

// Sleep waits for d. An error is the reason for the call to fail meanwhile: node.ErrTimeout
// when it has taken as long as the node allows, node.ErrCanceled, or node.ErrClosed.
func (x *Exchange) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	left := time.Until(x.deadline)
	err := x.await(ctx, nil, min(d, left))
	if errors.Is(err, node.ErrTimeout) && d <= left {
		return nil
	}
	return err
}

// await waits until the channel is closed, and for d at most.
func (x *Exchange) await(ctx context.Context, wake <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return nil
	case <-timer.C:
		return node.ErrTimeout
	case <-x.node.ctx.Done():
		return node.ErrClosed
	case <-ctx.Done():
		return node.ErrCanceled
	}
}

// Later has the operations run in d, in the background, unless the node is closed by then.
// Nobody learns the answers. The context of that run ends when the node is closed.
//
// This breaks, on purpose, the promise of node.Node that calls take effect in their order.
func (x *Exchange) Later(d time.Duration, next Next) {
	late := x.Copy()
	late.Ops = slices.Clone(x.Ops)
	for i, op := range late.Ops {
		late.Ops[i].Names, late.Ops[i].Buried = slices.Clone(op.Names), slices.Clone(op.Buried)
	}
	x.node.later(d, func(ctx context.Context) {
		late.deadline = time.Now().Add(late.node.timeout)
		next(ctx, late)
	})
}

// kind is that of what Replies[i] answers.
func (x *Exchange) kind(i int) node.Kind {
	if x.Probe {
		return 0
	}
	return x.Ops[i].Kind
}
