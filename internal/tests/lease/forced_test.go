package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

var fixed = quorumlock.LockOptions{Fixed: true}

// A message is no proof: a lease without a tombstone on the nodes goes on, and a Fixed one is not extended.
func TestForcedMessageIsNoProof(t *testing.T) {
	for _, o := range []quorumlock.LockOptions{{}, fixed} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			client := f.Client()
			fleet.Subscribe(t, f, client)
			lease := fleet.MustAcquire(t, client.RedLock("job").With(o))
			fleet.Settle()
			time.Sleep(time.Second)
			before := lease.Remaining()
			for _, nd := range f.Nodes {
				replies := make([]node.Reply, 1)
				op := node.Op{Kind: node.ForceRelease, Names: []string{"other"}, Owner: lease.Owner(), TTL: time.Second, Limits: f.Limits}
				for range 100 {
					nd.Do(t.Context(), []node.Op{op}, replies)
					require.NoError(t, replies[0].Err)
				}
			}
			fleet.Settle()
			require.NoError(t, lease.Err())
			if o.Fixed {
				require.Equal(t, before, lease.Remaining())
			}
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// A forced release reaches the nodes one after the other, and each message comes at once. A minority changes nothing, and
// the majority ends the lease.
func TestForcedReleaseOfNodesInTurn(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		fleet.Subscribe(t, f, client)
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		fleet.Settle()
		for i, nd := range f.Nodes {
			require.Equal(t, i < 3, lease.Err() == nil, i)
			replies := make([]node.Reply, 1)
			nd.Do(t.Context(), []node.Op{{Kind: node.ForceRelease, Names: []string{"job"}, TTL: time.Minute, Limits: f.Limits}}, replies)
			require.NoError(t, replies[0].Err)
			fleet.Settle()
			if i == 0 {
				have, _ := lease.Backing()
				require.Equal(t, 5, have, "one message alone causes no renewal")
			}
		}
		require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, lease.Err()).Cause)
	})
}
