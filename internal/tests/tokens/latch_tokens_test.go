package tokens_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// A latch and a lock of the same name are independent: the latch does not follow the tokens of the lock.
func TestLatchDoesNotFollowTheLockOfItsName(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client(fleet.SkewedBy(f, 900*time.Millisecond)).RedLock(hot))
		link := &latchTokens{Node: f.Nodes[0]}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[0] = link })
		fleet.AcquireAndRelease(t, client.RedLock(cold))
		latch := client.Latch(cold)
		require.NoError(t, latch.Set(t.Context(), 2))
		require.NoError(t, latch.CountDown(t.Context(), "one"))
		require.NoError(t, latch.Delete(t.Context()))
		fleet.Settle()
		require.NotZero(t, link.largest.Load())
		require.LessOrEqual(t, link.largest.Load(), uint64(f.Clock.Wall().Add(time.Millisecond).UnixMicro()))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// Two nodes reject every token. Their reasons are *node.Errors that name them.
func TestErrorsOfNodesThatRejectTheToken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(func(cfg *quorumlock.Config) {
			for i := range 2 {
				cfg.Nodes[i] = &liar{Node: f.Nodes[i], tell: func(op node.Op) uint64 { return op.Token }}
			}
		})
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, fleet.MustBeRefused(t, client.RedLock("job")), &short)
		require.ErrorContains(t, short, "rejected our fencing token")
		require.NotEmpty(t, short.Nodes)
		for _, n := range short.Nodes {
			var one *node.Error
			require.ErrorAs(t, n.Err, &one, "%v", n.Err)
			require.Equal(t, n.Node, one.Node)
		}
	})
}
