package quorumlock

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Each client aligns its renewals to a random phase, so clients do not renew together, at any TTL.
func TestClientsDoNotRenewTogether(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second, time.Hour, 24 * time.Hour} {
		grain := ttl / 128
		parts := map[int]bool{}
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		for range 1000 {
			c, err := New(Config{
				Nodes:  []node.Node{node.NewMemory("m", clock.Process())},
				TTL:    ttl,
				MaxTTL: 24 * time.Hour,
				Jitter: r.Float64,
			})
			require.NoError(t, err)
			at := quorum.AlignToBunch(ttl, ttl, c.renewalPhase)
			parts[int(8*(ttl-at)/grain)] = true
			require.NoError(t, c.Close(t.Context()))
		}
		require.Len(t, parts, 8, "TTL %v", ttl)
	}
}
