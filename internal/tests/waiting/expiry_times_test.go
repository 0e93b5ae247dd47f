package waiting_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// wrongTTL is a node that reports a wrong TTL for each holder.
type wrongTTL struct {
	*fleet.Spy
	ttl time.Duration
}

func (o *wrongTTL) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	o.Spy.Do(ctx, ops, replies)
	time.Sleep(200 * time.Microsecond)
	for i := range replies {
		if replies[i].Outcome == node.Denied {
			replies[i].Holder.TTL = o.ttl
		}
	}
}

// Nodes report implausible TTLs of the holder. A waiter must not poll all the time because of them.
func TestImplausibleTTLsDoNotMakeWaiterBusy(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1, -2, time.Millisecond, 1 << 62} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			_ = fleet.MustAcquire(t, f.Client().RedLock("job"))
			spies := make([]*fleet.Spy, 3)
			c := f.Client(func(cfg *quorumlock.Config) {
				for i, nd := range f.Nodes {
					spies[i] = &fleet.Spy{Memory: nd}
					cfg.Nodes[i] = &wrongTTL{spies[i], ttl}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := c.RedLock("job").Acquire(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, quorumlock.ErrHeld)
			asked := float64(fleet.TotalAsked(spies)) / 3 / 2
			t.Logf("ttl %v: %.1f acquisitions per second and node: %v", ttl, asked, err)
			require.LessOrEqual(t, asked, 50.0)
		})
	}
}

// A waiter whose last recheck is less than 1 ms before the expiry waits for that whole millisecond, since nodes
// tell a TTL in milliseconds. The jitter keeps the recheck away from the expiry.
func TestWaitersKnowWhenAHolderExpires(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client(func(cfg *quorumlock.Config) {
			cfg.RetryMin, cfg.RetryMax = time.Minute, time.Minute
			cfg.Jitter = func() float64 { return 0.5 }
		})
		replies := make([]node.Reply, 1)
		f.Nodes[0].Do(t.Context(), []node.Op{{
			Kind: node.Acquire, Names: []string{"job"}, Owner: "x", TTL: time.Second,
			Token: uint64(f.Clock.Wall().UnixMicro()), Limits: f.Limits,
		}}, replies)
		require.Equal(t, node.Granted, replies[0].Outcome)
		began := f.Clock.Now()
		lease, err := c.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, f.Clock.Now()-began)
		require.NoError(t, lease.Release(t.Context()))
	})
}
