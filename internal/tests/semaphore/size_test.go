package semaphore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// Holders keep their permits when the number shrinks. Inspect lists them, and counts none of them as available.
func TestInspectAfterTheNumberOfPermitsShrank(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		s := f.Client().Semaphore("jobs", 4)
		held := permits(t, s, 4)
		require.NoError(t, s.SetPermits(t.Context(), 1))
		status, err := f.Client().Semaphore("jobs", 1).Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, status.Permits)
		require.Equal(t, []quorumlock.PermitHolder{{Owner: held.Owner(), Slots: []int{0, 1, 2, 3}}}, status.Holders())
		require.Zero(t, status.Available())
		require.NoError(t, held.Release(t.Context()))
		n, err := s.Available(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

// overtaken is a node on which another client has always just set the number of permits.
type overtaken struct{ node.Node }

func (n overtaken) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	n.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == node.Resize && op.Pool.Version != 0 {
			replies[i] = node.Reply{Outcome: node.Denied, Pool: node.PoolState{Size: 9, Version: op.Pool.Version + 1}}
		}
	}
}

// A SetPermits that loses again and again names the nodes that did not take its number.
func TestSetPermitsThatLosesNamesTheNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client(func(cfg *quorumlock.Config) {
			cfg.Nodes[0], cfg.Nodes[2] = overtaken{cfg.Nodes[0]}, overtaken{cfg.Nodes[2]}
		})
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, c.Semaphore("jobs", 4).SetPermits(t.Context(), 2), &short)
		require.Equal(t, 1, short.Agreed)
		require.Len(t, short.Nodes, 2)
		for i, name := range []string{"n1", "n3"} {
			require.Equal(t, name, short.Nodes[i].Node)
			var one *node.Error
			require.ErrorAs(t, short.Nodes[i].Err, &one)
			require.Equal(t, node.Resize, one.Op)
		}
	})
}

// The number of permits of one semaphore does not become a permit of another one with the same hash tag.
func TestSemaphoresWithOneHashTag(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		for _, name := range []string{"{tenant}:0", "{tenant}:1"} {
			require.NoError(t, client.Semaphore(name, 1).SetPermits(t.Context(), 5))
		}
		held := permits(t, client.Semaphore("{tenant}", 2), 2)
		require.Len(t, held.Slots(), 2)
		n, err := client.Semaphore("{tenant}:0", 1).Available(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, n)
	})
}
