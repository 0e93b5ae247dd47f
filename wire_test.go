package quorumlock_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// wire is one client's way to a node, which can be cut or slow for this client alone.
type wire struct {
	node.Node
	name string
	// severed fails every call; slow delays what is sent on its way to the node, and muted
	// what the node answers.
	severed     atomic.Bool
	slow, muted atomic.Int64
}

func (w *wire) Name() string { return w.name }

func (w *wire) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	if w.severed.Load() {
		for i, op := range ops {
			replies[i] = node.Reply{Err: &node.Error{Node: w.name, Op: op.Kind, Reason: node.ErrUnreachable}, Unsent: true}
		}
		return
	}
	time.Sleep(time.Duration(w.slow.Load()))
	w.Node.Do(ctx, ops, replies)
	time.Sleep(time.Duration(w.muted.Load()))
}

func (w *wire) Probe(ctx context.Context) error {
	if w.severed.Load() {
		return &node.Error{Node: w.name, Reason: node.ErrUnreachable}
	}
	return w.Node.Probe(ctx)
}

// wired makes a client with wires of its own.
func (f *fleet) wired(changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*wire) {
	f.t.Helper()
	wires := make([]*wire, len(f.nodes))
	return f.client(append(changes, func(cfg *quorumlock.Config) {
		for i, nd := range cfg.Nodes {
			wires[i] = &wire{Node: nd, name: nd.Name()}
			cfg.Nodes[i] = wires[i]
		}
	})...), wires
}
