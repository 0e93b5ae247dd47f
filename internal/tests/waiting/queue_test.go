package waiting_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Waiters of different clients are served in the order of their arrival.
func TestClientsAreServedInOrderOfArrival(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		g := &grants{f: f}
		r := &fleet.Referee{T: t}
		var wg sync.WaitGroup
		var want []string
		for i := range 12 {
			who := string(rune('a' + (i*5)%12))
			want = append(want, who)
			g.wait(t.Context(), &wg, who, f.Client().RedLock("job"), 10*time.Millisecond)
			fleet.Settle()
			time.Sleep(time.Duration(i%3+1) * time.Millisecond)
		}
		time.Sleep(777 * time.Millisecond)
		r.Grant(before)
		require.NoError(t, before.Release(t.Context()))
		wg.Wait()
		require.Equal(t, want, g.order())
		for i := 1; i < 12; i++ {
			require.Greater(t, g.s[i].token, g.s[i-1].token)
			require.Equal(t, 10*time.Millisecond, g.s[i].at-g.s[i-1].at, "each release wakes the next waiter at once")
		}
	})
}

// A waiter asks, asks again with a queue entry, and then waits for messages. Meanwhile its client beats about
// once a second.
func TestWaiterAsksRarely(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		require.True(t, waits.Waits())
		require.Equal(t, 5, f.Waiters())
		for _, s := range spies {
			require.Equal(t, 2, s.Asked())
		}
		time.Sleep(30 * time.Second)
		require.NoError(t, before.Release(t.Context()))
		_ = waits.Has()
		fleet.Settle()
		for _, s := range spies {
			require.Equal(t, 1, s.Listens())
			require.Equal(t, 3, s.Asked())
			require.LessOrEqual(t, s.Beats(), 30*4/3+1)
			require.GreaterOrEqual(t, s.Beats(), 29)
		}
	})
}

// A woken waiter that gives up delays the next one only briefly. TestStaleQueueHeadsBlockBriefly has those that are dead
// or hang.
func TestWokenWaiterThatGivesUpBlocksOthersBriefly(t *testing.T) {
	for i := range 50 {
		fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
			before := fleet.MustAcquire(t, f.Client().RedLock("job"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first := fleet.StartAcquire(ctx, t, f.Client().RedLock("job"))
			second := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			go cancel()
			require.NoError(t, before.Release(t.Context()))
			if <-first.Done; first.Err == nil {
				require.NoError(t, first.Lease.Release(t.Context()))
			}
			require.LessOrEqual(t, f.Elapsed(func() { <-second.Done }), 31*time.Millisecond)
			require.NoError(t, second.Has().Release(t.Context()))
			f.RequireNoKeys()
		})
	}
}

// A waiter has a queue entry on one node only. The release there wakes it.
func TestEntryOnOneNodeIsEnoughToBeWoken(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		for i, s := range spies {
			if i != 3 {
				s.Set(func(s *fleet.Spy) { s.Listening = make(chan struct{}) })
			}
		}
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, f.Waiters())
		require.NoError(t, before.Release(t.Context()))
		require.LessOrEqual(t, f.Elapsed(func() { <-waits.Done }), time.Millisecond, "one queue entry is enough to be woken")
		_ = waits.Has()
	})
}

// A waiter makes no queue entry on a node before its subscription is confirmed. The node could not wake it, and a
// release in that time would wake no waiter.
func TestNoQueueEntryBeforeSubscription(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		confirm := make(chan struct{})
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.Listening = confirm })
		}
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		time.Sleep(777 * time.Millisecond)
		for _, s := range spies {
			require.Equal(t, 1, s.Listens())
			require.Zero(t, s.Entered())
			require.Greater(t, s.Asked(), 3, "the waiter polls meanwhile")
		}
		require.Zero(t, f.Waiters())
		by := spies[0].Asked()
		close(confirm)
		fleet.Settle()
		require.LessOrEqual(t, spies[0].Asked(), by+1)
		time.Sleep(defaultRetryMax)
		require.Equal(t, 3, f.Waiters())
		time.Sleep(111 * time.Millisecond)
		require.NoError(t, before.Release(t.Context()))
		_ = waits.Has()
	})
}

// defaultRetryMax is the default of Config.RetryMax.
const defaultRetryMax = 200 * time.Millisecond

// A wake overtakes the denial that the node sent before on another connection. The waiter must not lose the wake.
func TestWakeThatOvertakesDenialIsKept(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		denied, proceed := make(chan struct{}, 3), make(chan struct{})
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) {
				s.After = func(ops []wire.Op) {
					// An exchange may carry an earlier acquisition, without an entry, before it.
					if slices.ContainsFunc(ops, func(op wire.Op) bool { return op.Kind == wire.Acquire && op.Waiter.ID != "" }) {
						denied <- struct{}{}
						<-proceed
					}
				}
			})
		}
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		for range 3 {
			<-denied // The node has denied, but its answer has not arrived.
		}
		require.NoError(t, before.Release(t.Context()))
		require.True(t, waits.Waits())
		time.Sleep(10 * time.Millisecond)
		close(proceed)
		_ = waits.Has()
	})
}
