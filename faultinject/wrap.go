package faultinject

import (
	"context"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Node is a node.Node with an [Effect] in front of it, which breaks calls on the way to the inner node. Without an
// effect it behaves as the inner node. It is safe for concurrent use, and works inside and outside of bubbles of
// testing/synctest; see [Wrap] for the requirements of a client there.
type Node struct {
	inner  node.Node
	effect atomic.Pointer[Effect]
	// ctx ends when the node is closed.
	ctx   context.Context
	close context.CancelFunc
}

var (
	_ node.Node     = (*Node)(nil)
	_ wire.Listener = (*Node)(nil)
)

// Wrap puts a decorator without an effect in front of a node. The decorator has the node's name and identity, and
// closes the node when it is closed. Wrap panics for a nil node.
//
// In a bubble of testing/synctest, time is virtual for package time, but not for clock.System, the default of clients
// and in-memory nodes: virtual time would advance endlessly while they wait for the system's. Both need
// clock.Process, and everything must be made, and closed, in the bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		c := clock.Process()
//		n := faultinject.Wrap(memory.New("n1", c))
//		defer n.Close()
//		cfg := quorumlock.Config{Nodes: []node.Node{n}, Clock: c}
//		... // admin.Init, quorumlock.New, and so on
//	})
func Wrap(inner node.Node) *Node {
	if inner == nil {
		panic("faultinject: Wrap of a nil node")
	}
	n := &Node{inner: inner}
	n.ctx, n.close = context.WithCancel(context.Background())
	return n
}

// Set has all later calls come to the effect, in place of the last one. Calls under way continue with theirs.
func (n *Node) Set(e Effect) { n.effect.Store(&e) }

// Heal lets all later calls come to the inner node.
func (n *Node) Heal() { n.effect.Store(nil) }

// Name implements node.Node.
func (n *Node) Name() string { return n.inner.Name() }

// Identity implements node.Node.
func (n *Node) Identity() string { return n.inner.Identity() }

// Tag returns the hash tag of an inner node that is a slot of a cluster, and "" for other nodes.
func (n *Node) Tag() string {
	if slot, ok := n.inner.(interface{ Tag() string }); ok {
		return slot.Tag()
	}
	return ""
}

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	n.pass(ctx, &Exchange{Node: n.Name(), Ops: ops, Replies: replies, node: n})
}

// Probe implements node.Node.
func (n *Node) Probe(ctx context.Context) error {
	var reply [1]wire.Reply
	n.pass(ctx, &Exchange{Node: n.Name(), Probe: true, Replies: reply[:], node: n})
	return reply[0].Err
}

// pass passes a call to the effect. A call that the inner node would refuse to send comes to that at once.
func (n *Node) pass(ctx context.Context, x *Exchange) {
	e := n.effect.Load()
	if e == nil || ctx.Err() != nil || n.ctx.Err() != nil {
		x.Run(ctx)
		return
	}
	x.Fail(&node.Error{Reason: node.ErrProtocol, Err: errUnanswered}, false)
	(*e)(ctx, x)
}

// Listen implements wire.Listener if the inner node does: see [inbox.Listen]. Effects see neither the call nor the
// messages.
func (n *Node) Listen(ctx context.Context, client string, deliver func(wire.Message)) (wire.Inbox, error) {
	return inbox.Listen(ctx, n.inner, client, deliver)
}

// Close implements node.Node. It frees calls that are delayed, with node.ErrClosed, and closes the inner node. Closing
// twice is harmless.
func (n *Node) Close() error {
	n.close()
	return n.inner.Close()
}
