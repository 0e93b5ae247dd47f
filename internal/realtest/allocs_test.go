//go:build !race

package realtest_test

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// cycleAllocs is the number of allocations for one uncontended acquire and release on five
// willing nodes. It includes the senders' allocations.
const cycleAllocs = 16

// TestUncontendedCycleAllocations guards the allocations of the hot path. One more allocation is
// accepted, as senders may batch differently on another machine. The test takes the least of several
// batches: other goroutines, and a garbage collection that empties pools, can only add allocations.
func TestUncontendedCycleAllocations(t *testing.T) {
	client, err := quorumlock.New(quorumlock.Config{Nodes: willingNodes(5), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer closeClient(t, client)
	cycle := func() {
		lease, err := client.RedLock("a").Acquire(context.Background())
		require.NoError(t, err)
		require.NoError(t, lease.Release(context.Background()))
	}
	allocs := math.Inf(1)
	for range 20 {
		allocs = min(allocs, testing.AllocsPerRun(200, cycle))
	}
	t.Logf("%v allocations", allocs)
	require.LessOrEqual(t, allocs, cycleAllocs+1.0)
}

// willing is a node without a server, which grants and releases whatever it is asked to, at no cost.
type willing struct {
	node.Node
	name string
}

func willingNodes(n int) []node.Node {
	nodes := make([]node.Node, n)
	for i := range nodes {
		nodes[i] = &willing{name: "n" + strconv.Itoa(i)}
	}
	return nodes
}

func (w *willing) Name() string                       { return w.name }
func (w *willing) Server() (identity, process string) { return w.name, "" }
func (w *willing) RoundTrip() time.Duration           { return 0 }
func (w *willing) Eviction() string                   { return "" }
func (w *willing) Unseen() string                     { return "" }
func (w *willing) Probe(context.Context) error        { return nil }
func (w *willing) Close() error                       { return nil }

func (w *willing) Do(_ context.Context, ops []wire.Op, replies []wire.Reply) {
	for i, op := range ops {
		replies[i] = wire.Reply{Outcome: wire.Granted}
		switch op.Kind {
		case wire.Release:
			replies[i].Outcome = wire.Released
		case wire.Enlist:
			replies[i].List = &wire.ListReply{ID: w.name}
		}
	}
}
