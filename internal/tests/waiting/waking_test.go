package waiting_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
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

// last returns the time since the last grant.
func (g *grants) last() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.f.Clock.Now() - g.s[len(g.s)-1].at
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

func TestReleaseWakesWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client(), f.Client()
		held, err := a.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		g := &grants{f: f}
		var wg sync.WaitGroup
		g.wait(t.Context(), &wg, "b", b.RedLock("job"), 0)
		time.Sleep(3333 * time.Millisecond)
		require.NoError(t, held.Release(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"b"}, g.order())
		require.Zero(t, g.last(), "the release wakes the waiter at once")
		require.Greater(t, g.s[0].token, held.Token())
		wg.Wait()
	})
}

func TestWaitersOfOneClientAreServedInOrder(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		held, err := c.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		g := &grants{f: f}
		var wg sync.WaitGroup
		for _, who := range []string{"1", "2", "3", "4", "5"} {
			g.wait(t.Context(), &wg, who, c.RedLock("job"), time.Millisecond)
			synctest.Wait()
		}
		require.NoError(t, held.Release(t.Context()))
		wg.Wait()
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, g.order())
		require.Equal(t, time.Millisecond, g.last())
		for i := 1; i < 5; i++ {
			require.Greater(t, g.s[i].token, g.s[i-1].token)
		}
		require.Equal(t, g.s[0].token+4, g.s[4].token, "four hand-overs raise the token by four")
		time.Sleep(time.Second)
		for _, nd := range f.Nodes {
			require.Empty(t, nd.Keys())
		}
	})
}
