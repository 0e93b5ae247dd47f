package faultinject

import (
	"context"
	"fmt"
)

// Nodes is a [Subject] of servers alone, for tests of a service that runs in the test's own
// process: plans for it are about nodes, and about ways that are cut for all clients at
// once, such as a [Nemesis] without clients draws.
type Nodes []Server

// Begin implements [Subject].
func (n Nodes) Begin(ctx context.Context, s Step) error { return n.befall(ctx, s, Begin) }

// End implements [Subject].
func (n Nodes) End(ctx context.Context, s Step) error { return n.befall(ctx, s, End) }

func (n Nodes) befall(ctx context.Context, s Step, do func(context.Context, Server, Step) error) error {
	if s.Node < 0 || s.Node >= len(n) {
		return fmt.Errorf("there is no such node among %d", len(n))
	}
	return do(ctx, n[s.Node], s)
}
