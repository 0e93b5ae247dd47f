package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/sim"
)

// TestClocksBeyondTheAllowance: a client whose clock is slower than the drift allowance relies on its lease for too
// long, and no lock can prevent two holders. Their tokens still show the order.
func TestClocksBeyondTheAllowance(t *testing.T) {
	broken := make(map[sim.Promise]int)
	for seed := range uint64(300) {
		c := sim.Draw(seed)
		for i := range c.Clients {
			c.Clients[i].Rate = 0.98
		}
		for _, v := range sim.Run(t, c, false).Violations {
			broken[v.Promise]++
			require.NotEqual(t, sim.Tokens, v.Promise, "seed %d: %s", seed, v)
		}
	}
	require.Positive(t, broken[sim.Exclusion], "two clients never held one lock, so the clocks were not slow enough for this test")
	t.Log(broken)
}
