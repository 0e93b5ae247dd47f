//go:build !race

package realtest_test

import (
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
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
	cycle := acquireAndRelease(client)
	allocs := math.Inf(1)
	for range 20 {
		allocs = min(allocs, testing.AllocsPerRun(200, func() { err = cycle("a") }))
		require.NoError(t, err)
	}
	t.Logf("%v allocations", allocs)
	require.LessOrEqual(t, allocs, cycleAllocs+1.0)
}
