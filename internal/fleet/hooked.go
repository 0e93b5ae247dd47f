package fleet

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// Hooked is a client's connection to a node, with a hook before and after each exchange.
type Hooked struct {
	*node.Memory
	mu            sync.Mutex
	before, after func(ops []node.Op)
}

// Set replaces both hooks. Either may be nil.
func (g *Hooked) Set(before, after func(ops []node.Op)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after = before, after
}

// Do carries out the operations on the node, between the two hooks.
func (g *Hooked) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	g.mu.Lock()
	before, after := g.before, g.after
	g.mu.Unlock()
	if before != nil {
		before(ops)
	}
	g.Memory.Do(ctx, ops, replies)
	if after != nil {
		after(ops)
	}
}

// HookedClient makes a client with hooks on its connection to every node.
func (f *Fleet) HookedClient(changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*Hooked) {
	gs := make([]*Hooked, len(f.Nodes))
	c := f.Client(append(changes, func(cfg *quorumlock.Config) {
		for i, nd := range f.Nodes {
			gs[i] = &Hooked{Memory: nd}
			cfg.Nodes[i] = gs[i]
		}
	})...)
	return c, gs
}
