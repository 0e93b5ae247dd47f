package waiting_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// grant is one grant that a test has seen.
type grant struct {
	who   string
	at    time.Duration
	token uint64
}

// grants lists the grants that a test has seen, in order.
type grants struct {
	f  *fleet.Fleet
	mu sync.Mutex
	s  []grant
}

func (g *grants) add(who string, l *quorumlock.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s = append(g.s, grant{who, g.f.Clock.Now(), l.Token()})
}

func (g *grants) order() (who []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.s {
		who = append(who, one.who)
	}
	return who
}

// wait starts a waiter that acquires the lock, adds the grant, holds the lock for a while, and releases it.
func (g *grants) wait(ctx context.Context, wg *sync.WaitGroup, who string, l *quorumlock.Lock, hold time.Duration) {
	wg.Go(func() {
		lease, err := l.Acquire(ctx)
		if err != nil {
			return
		}
		g.add(who, lease)
		time.Sleep(hold)
		_ = lease.Release(ctx)
	})
}

// wrongTTL is a node that reports a wrong TTL for each holder.
type wrongTTL struct {
	*fleet.Spy
	ttl time.Duration
}

func (o *wrongTTL) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	o.Spy.Do(ctx, ops, replies)
	time.Sleep(200 * time.Microsecond)
	for i := range replies {
		if replies[i].Outcome == wire.Denied {
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
					spies[i] = &fleet.Spy{Node: nd}
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

// A waiter tries when the holder expires. It finds the lock there for a last millisecond, and tries twice more after
// pauses of 0.75 and 1.5 ms. The jitter keeps the last beat away from the expiry, since nodes tell a TTL in milliseconds.
func TestWaitersKnowWhenAHolderExpires(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client(func(cfg *quorumlock.Config) {
			cfg.RetryMin, cfg.RetryMax = time.Minute, time.Minute
			cfg.Jitter = func() float64 { return 0.5 }
		})
		f.Do(0, wire.Granted, wire.Op{Kind: wire.Acquire, Names: []string{"job"}, Owner: "x", TTL: time.Second})
		began := f.Clock.Now()
		lease, err := c.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		// A node keeps a key until its last millisecond is over.
		require.InDelta(t, time.Second+1500*time.Microsecond, f.Clock.Now()-began, float64(time.Millisecond))
		require.NoError(t, lease.Release(t.Context()))
	})
}
