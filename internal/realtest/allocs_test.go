//go:build !race

package realtest_test

import (
	"log/slog"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
)

// cycleAllocs is the number of allocations for one uncontended acquire and release on five
// in-memory nodes. It includes the senders' allocations.
const cycleAllocs = 15

// TestUncontendedCycleAllocations guards the hot path, as TestRealCommandsAreCounted does. It
// accepts one more allocation, because the senders may batch differently on another machine. The
// least of several batches counts: other goroutines of the process and the garbage collector, which
// empties pools, can only add allocations.
func TestUncontendedCycleAllocations(t *testing.T) {
	cfg := quorumlock.Config{Logger: slog.New(slog.DiscardHandler)}
	for i := range 5 {
		cfg.Nodes = append(cfg.Nodes, node.NewMemory("n"+strconv.Itoa(i), nil))
	}
	_, err := admin.Init(t.Context(), cfg)
	require.NoError(t, err)
	client, err := quorumlock.New(cfg)
	require.NoError(t, err)
	defer closeClient(t, client)
	cycle := takeAndGiveBack(client)
	allocs := math.Inf(1)
	for range 20 {
		allocs = min(allocs, testing.AllocsPerRun(200, func() { err = cycle("a") }))
		require.NoError(t, err)
	}
	t.Logf("%v allocations", allocs)
	require.LessOrEqual(t, allocs, cycleAllocs+1.0)
}
