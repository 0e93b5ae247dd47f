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
func (n Nodes) Begin(ctx context.Context, s Step) error {
	if s.Node < 0 || s.Node >= len(n) {
		return fmt.Errorf("faultinject: %q is not about one of %d nodes", s, len(n))
	}
	return Begin(ctx, n[s.Node], s)
}

// End implements [Subject].
func (n Nodes) End(ctx context.Context, s Step) error { return End(ctx, n[s.Node], s) }
