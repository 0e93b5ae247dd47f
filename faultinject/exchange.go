package faultinject

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Exchange is one call of a [Node], or a part of one, as a [Predicate] and an [Effect] see it. It is valid until the
// call returns; code that needs data longer must copy it.
type Exchange struct {
	// Node is the name of the node.
	Node string
	// N numbers the calls of the node, Do and Probe alike, from 1.
	N int
	// Probe marks a call of Probe; otherwise it is a call of Do.
	Probe bool
	// Ops are the operations, none for a probe. They must not be changed. A busy client sends many in one exchange.
	Ops []node.Op
	// Replies are the answers, which an Effect fills itself or by next: Replies[i] answers Ops[i]. A probe has one
	// reply, of which only Err counts. A Predicate must not read them; an Effect gets them as failed.
	Replies []node.Reply

	node *Node
	// deadline is when the call times out.
	deadline time.Time
	// removed is closed when the current rule is removed.
	removed <-chan struct{}
}

// Next is the path behind an [Effect]: other rules, and then the node. It fills the Replies of the exchange. It may
// be called several times, and with another exchange.
type Next func(ctx context.Context, x *Exchange)

// Fail answers all operations, or the probe, with an error, which becomes a *node.Error. The reason is an error of
// package node, or a *node.Error that has one and a cause. The caller must set unsent only if nothing reached the
// node.
func (x *Exchange) Fail(reason error, unsent bool) {
	var cause error
	var given *node.Error
	if errors.As(reason, &given) {
		reason, cause = given.Reason, given.Err
	}
	for i := range x.Replies {
		x.Replies[i] = node.Reply{
			Err:    &node.Error{Node: x.Node, Op: x.kind(i), Reason: reason, Err: cause},
			Unsent: unsent,
		}
	}
}

// lose replaces answers by an error. Operations that did not reach the node, and failed probes, keep their error.
func (x *Exchange) lose(reason error) {
	for i, r := range x.Replies {
		if !r.Unsent && (!x.Probe || r.Err == nil) {
			x.Slice(i, i+1).Fail(reason, false)
		}
	}
}

// Slice returns the part of an exchange with the operations from i up to j, and their replies. A probe has no parts
// and is returned as it is.
func (x *Exchange) Slice(i, j int) *Exchange {
	part := *x
	if !x.Probe {
		part.Ops, part.Replies = x.Ops[i:j:j], x.Replies[i:j:j]
	}
	return &part
}

// Copy returns an exchange with the same operations, but its own replies.
func (x *Exchange) Copy() *Exchange {
	twin := *x
	twin.Replies = make([]node.Reply, len(x.Replies))
	return &twin
}

// Sleep waits for d. An error is the reason why the call fails meanwhile: node.ErrTimeout after the node's timeout,
// node.ErrCanceled, or node.ErrClosed.
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

// await waits until the channel is closed, or for d.
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

// Later runs the operations after d, in the background, unless the node is closed by then. The answers are dropped.
// The context of that run ends when the node is closed.
//
// This deliberately breaks the promise of node.Node that calls take effect in their order.
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

// kind is the kind of the operation that Replies[i] answers.
func (x *Exchange) kind(i int) node.Kind {
	if x.Probe {
		return 0
	}
	return x.Ops[i].Kind
}
