package fleet

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Wire is one client's connection to a node. It can be cut or slow for this client alone.
type Wire struct {
	node.Node
	// NodeName is what Name returns.
	NodeName string
	// Severed fails every call, unsent.
	Severed atomic.Bool
	// Slow is the delay of requests, Muted the delay of replies, in nanoseconds.
	Slow, Muted atomic.Int64
	// Strays holds up the next exchange with an acquisition, which the client counts as timed out. Arrive runs it.
	Strays atomic.Bool
	stray  []wire.Op
}

// Arrive runs the operations that strayed. Their answers are lost.
func (w *Wire) Arrive(ctx context.Context) { w.Node.Do(ctx, w.stray, make([]wire.Reply, len(w.stray))) }

// Name returns NodeName.
func (w *Wire) Name() string { return w.NodeName }

// Do passes the operations on, with the delays, or fails them all.
func (w *Wire) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	if w.Severed.Load() {
		refuse(w.NodeName, ops, replies, node.ErrUnreachable, true)
		return
	}
	if ops[0].Kind == wire.Acquire && w.Strays.CompareAndSwap(true, false) {
		w.stray = slices.Clone(ops)
		refuse(w.NodeName, ops, replies, node.ErrTimeout, false)
		return
	}
	time.Sleep(time.Duration(w.Slow.Load()))
	w.Node.Do(ctx, ops, replies)
	time.Sleep(time.Duration(w.Muted.Load()))
}

// refuse fails all operations for a reason.
func refuse(name string, ops []wire.Op, replies []wire.Reply, reason error, unsent bool) {
	for i, op := range ops {
		replies[i] = wire.Reply{Err: &node.Error{Node: name, Op: op.Kind.String(), Reason: reason}, Unsent: unsent}
	}
}

// Probe passes the probe on, or fails it.
func (w *Wire) Probe(ctx context.Context) error {
	if w.Severed.Load() {
		return &node.Error{Node: w.NodeName, Reason: node.ErrUnreachable}
	}
	return w.Node.Probe(ctx)
}

// WiredClient makes a client with a wire of its own to every node.
func (f *Fleet) WiredClient(changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*Wire) {
	f.T.Helper()
	wires := make([]*Wire, len(f.Nodes))
	return f.Client(append(changes, func(cfg *quorumlock.Config) {
		for i, nd := range cfg.Nodes {
			wires[i] = &Wire{Node: nd, NodeName: nd.Name()}
			cfg.Nodes[i] = wires[i]
		}
	})...), wires
}
