package tokens_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// hot and cold are names that share the place of their fences.
const hot, cold = "aaa", "ncw"

// A name that shares its place with another one gets a larger token than need be, and no name keeps the
// other out.
func TestNamesThatShareAPlace(t *testing.T) {
	for _, d := range []time.Duration{0, -900 * time.Millisecond, -9 * time.Second} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			fast, slow := f.Client(fleet.SkewedBy(f, 900*time.Millisecond)), f.Client(fleet.SkewedBy(f, d))
			var last uint64
			for i := range 50 {
				lease, err := fast.RedLock(hot).TryAcquire(t.Context())
				require.NoError(t, err)
				token := fleet.AcquireAndRelease(t, slow.RedLock(cold))
				require.Greater(t, token, lease.Token(), "turn %d", i)
				require.Greater(t, token, last)
				require.NoError(t, lease.Release(t.Context()))
				fleet.Settle()
				both := fleet.AcquireAndRelease(t, slow.MultiLock(hot, cold, "other"))
				require.Greater(t, both, token)
				last = both
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
		})
	}
}

// A client that is outbid once proposes the next token, without a margin: usually that suffices, and a larger one
// would outbid others.
func TestSecondProposalHasNoMargin(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client(fleet.SkewedBy(f, 900*time.Millisecond)).RedLock(hot))
		client, _ := f.DistantClient(20 * time.Millisecond)
		require.Equal(t, lease.Token()+1, fleet.AcquireAndRelease(t, client.RedLock(cold)))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A client follows the tokens of others, and then its clock is set ahead. Nodes refuse one of its tokens, and take
// the next one: the client follows no longer.
func TestRefusedTokenEndsTheLead(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client(fleet.SkewedBy(f, 900*time.Millisecond)).RedLock(hot))
		wrong := testkit.NewSkewed(f.Clock, 1)
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Clock = wrong })
		fleet.AcquireAndRelease(t, client.RedLock(cold))
		wrong.StepWall(500 * time.Millisecond)
		_, err := client.RedLock("other").TryAcquire(t.Context())
		require.ErrorIs(t, err, node.ErrClock)
		fleet.AcquireAndRelease(t, client.RedLock("other"))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// latchTokens is a client's connection to a node. It records the largest token of the operations on latches.
type latchTokens struct {
	node.Node
	largest atomic.Uint64
}

func (x *latchTokens) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	for _, op := range ops {
		if op.Kind == wire.Latch || op.Kind == wire.Unlatch {
			x.largest.Store(max(x.largest.Load(), op.Token))
		}
	}
	x.Node.Do(ctx, ops, replies)
}

// A client follows the tokens of others in its locks, but not in its latches. A late operation on a latch has no effect
// on a later generation only if its token is no further ahead than the clock. A latch and a lock of the same name are
// independent, too.
func TestLatchesDoNotFollowOthers(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client(fleet.SkewedBy(f, 900*time.Millisecond)).RedLock(hot))
		link := &latchTokens{Node: f.Nodes[0]}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[0] = link })
		fleet.AcquireAndRelease(t, client.RedLock(cold))
		for _, name := range []string{"gate", cold} {
			latch := client.Latch(name)
			require.NoError(t, latch.Set(t.Context(), 2))
			require.NoError(t, latch.CountDown(t.Context(), "one"))
			require.NoError(t, latch.Delete(t.Context()))
		}
		fleet.Settle()
		require.NotZero(t, link.largest.Load())
		require.LessOrEqual(t, link.largest.Load(), uint64(f.Clock.Wall().Add(time.Millisecond).UnixMicro()))
		require.NoError(t, lease.Release(t.Context()))
	})
}
