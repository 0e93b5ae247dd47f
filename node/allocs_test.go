//go:build !race

package node_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// TestExchangesDoNotAllocate guards the hot path: an acquisition and its release, each alone in its exchange with
// a server. The test takes the least of several batches: other goroutines, and a garbage collection that empties
// pools, can only add allocations.
func TestExchangesDoNotAllocate(t *testing.T) {
	r := open(t, start(t).Addr())
	ops := complete(acquire("o1", "a"), release("o1", "a"))
	replies := make([]wire.Reply, 1)
	allocs := math.Inf(1)
	for range 20 {
		allocs = min(allocs, testing.AllocsPerRun(200, func() {
			ops[0].Token++
			for i := range ops {
				r.Do(context.Background(), ops[i:i+1], replies)
				require.NoError(t, replies[0].Err)
			}
		}))
	}
	require.Zero(t, allocs)
}
