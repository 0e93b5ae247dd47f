package lease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// ofNodes requires that the error of each node is a *node.Error that names it.
func ofNodes(t *testing.T, op node.Kind, nodes []quorumlock.NodeError) {
	t.Helper()
	require.NotEmpty(t, nodes)
	for _, n := range nodes {
		var one *node.Error
		require.ErrorAs(t, n.Err, &one, "%v", n.Err)
		require.Equal(t, n.Node, one.Node)
		require.Equal(t, op, one.Op)
	}
}

// The nodes no longer had a lease when it was released.
func TestErrorsOfNodesThatNoLongerHadTheLease(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		f.Free("job", lease.Owner(), 0, 1, 2)
		lost := lossOf(t, lease.Release(t.Context()))
		require.Len(t, lost.Nodes, 3)
		ofNodes(t, node.Release, lost.Nodes)
	})
}
