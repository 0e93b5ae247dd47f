package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// A lease is handed over between the messages of two nodes. They tell of one owner, so both count.
func TestForcedReleaseAcrossAHandover(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		fleet.Subscribe(t, f, client)
		job := client.RedLock("job")
		line := fleet.LineUp(t, job, job)
		force := func(i int) {
			t.Helper()
			replies := make([]node.Reply, 1)
			f.Nodes[i].Do(t.Context(), []node.Op{{Kind: node.ForceRelease, Names: []string{"job"}, TTL: time.Minute, Limits: f.Limits}}, replies)
			require.NoError(t, replies[0].Err)
			fleet.Settle()
		}
		force(0)
		first := line[0].Has()
		require.NoError(t, first.Release(t.Context()))
		next := line[1].Has()
		require.Equal(t, first.Owner(), next.Owner(), "handed over")
		force(1)
		require.NoError(t, next.Err(), "a minority")
		force(2)
		require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, next.Err()).Cause, "a majority has released it by force")
	})
}
