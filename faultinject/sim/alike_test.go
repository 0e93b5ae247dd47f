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

// Without this, a failure could not be replayed. The scheduler changes a few cases of a hundred, more on a busy machine. (The race
// detector deliberately runs goroutines in random order.)
func TestSeedReplaysItsHistory(t *testing.T) {
	const runs = 60
	alike := func(c *sim.Case) bool {
		return slices.Equal(sim.Run(t, c, true).History, sim.Run(t, c, true).History)
	}
	for range 10 { // a busy machine interrupts more of the runs
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
		if min(whole, calm) >= runs*8/10 {
			return
		}
		t.Logf("runs of a seed have one history; %d of %d had, and %d of shortened cases", whole, runs, calm)
	}
	t.Fatal("too many runs of a seed differ")
}
