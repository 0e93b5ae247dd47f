//go:build !race

package sim_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/sim"
)

// TestSeedReplaysItsHistory plays cases of each kind twice, every other one as shrink leaves it. Without equal histories, a
// failure could not be replayed. (The race detector deliberately runs goroutines in random order.)
//
// On a busy machine, the runtime interrupts a goroutine that waits for a processor for 10 ms, and others of the same virtual
// instant overtake it. So a case whose first two runs differ is played again, and most of its runs must be alike.
// Whatever is left to chance, such as the order of a map, makes more of them differ.
func TestSeedReplaysItsHistory(t *testing.T) {
	const cases, again, alike = 80, 20, 14
	for i := range cases {
		c := reduced{seed: *from + uint64(i), kind: sim.Kinds[i%len(sim.Kinds)], calm: i/len(sim.Kinds)%2 == 1}
		play := func() string { return strings.Join(sim.Run(t, c.draw(), true).History, "\n") }
		first := play()
		require.NotEmpty(t, first)
		if play() == first {
			continue
		}
		runs, most := map[string]int{}, 0
		for range again {
			history := play()
			runs[history]++
			most = max(most, runs[history])
		}
		t.Logf("%d of %d runs of %s are alike", most, again, c)
		require.GreaterOrEqual(t, most, alike, "%s has %d histories", c, len(runs))
	}
}
