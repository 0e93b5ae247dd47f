//go:build !race

package sim_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/sim"
)

const defaultSeeds = 1000

// Without this, a failure could not be replayed. The scheduler changes three or four cases of a hundred. (The race
// detector deliberately runs goroutines in random order.)
func TestSeedReplaysItsHistory(t *testing.T) {
	const runs = 60
	alike := func(c *sim.Case) bool {
		return slices.Equal(sim.Run(t, c, true).History, sim.Run(t, c, true).History)
	}
	whole, calm := 0, 0
	for range runs {
		c := sim.Draw(rand.Uint64())
		if alike(c) {
			whole++
		}
		c, err := sim.ParseCase(c.String() + "/calm") // as Shrink leaves them
		require.NoError(t, err)
		if alike(c) {
			calm++
		}
	}
	require.GreaterOrEqual(t, whole, runs*8/10, "runs of one seed have one history")
	require.GreaterOrEqual(t, calm, runs*8/10, "runs of one shortened case have one history")
}
