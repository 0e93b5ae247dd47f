package faultinject

import (
	"context"
	"fmt"
)

// Nodes is a [Subject] that consists of servers only, for tests of a service in the test's own process. Its plans
// concern nodes, and ways that are cut for all clients at once. A [Nemesis] without clients draws such plans.
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
