package waiting_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A MultiLock waiter is first in the queues, and one node is down. It must not block a RedLock waiter, which needs only
// a majority.
func TestBlockedMultiLockDoesNotBlockRedLock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		all := fleet.StartAcquire(t.Context(), t, f.Client().MultiLock("job"))
		require.True(t, all.Waits())
		time.Sleep(10 * time.Millisecond)
		most := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		require.True(t, most.Waits())
		f.Stop(2)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, before.Release(t.Context()))
		time.Sleep(30 * time.Second)
		require.False(t, most.Waits(), "the RedLock waiter was not served within 30 s")
	})
}

// The first client in the queues reaches only two of five nodes, and one node is down. It must not block another client
// that reaches the other four.
func TestPartitionedClientDoesNotBlockOthers(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		x, spies := f.SpiedClient()
		first := fleet.StartAcquire(t.Context(), t, x.RedLock("job"))
		require.True(t, first.Waits())
		time.Sleep(10 * time.Millisecond)
		second := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		require.True(t, second.Waits())
		for _, s := range spies[2:] {
			s.Severed.Store(true)
		}
		f.Stop(4)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, before.Release(t.Context()))
		time.Sleep(30 * time.Second)
		require.False(t, second.Waits(), "four of five nodes are up, and the lock is free")
	})
}

// The holder lacks one node, where the waiters wake each other. Each waiter must ask no more than three times a second,
// at any latency of the links.
func TestFreeMinorityNodeOnSlowLinks(t *testing.T) {
	for _, oneWay := range []time.Duration{0, 50, 300, 1000, 5000} {
		for _, waiters := range []int{1, 2, 3, 8} {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				h, cut := f.SpiedClient()
				cut[0].Severed.Store(true)
				_ = fleet.MustAcquire(t, h.RedLock("job"))
				ctx, cancel := context.WithCancel(t.Context())
				var all [][]*fleet.Spy
				var ws []*fleet.Acquisition
				for range waiters {
					c, spies := f.DistantClient(oneWay * time.Microsecond)
					all = append(all, spies)
					ws = append(ws, fleet.StartAcquire(ctx, t, c.RedLock("job")))
					time.Sleep(155 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				n := fleet.TotalAsked(all...)
				time.Sleep(10 * time.Second)
				n = fleet.TotalAsked(all...) - n
				t.Logf("one way %v, %d waiters: acquisitions per second, node and waiter while the lock is held: %.1f", oneWay*time.Microsecond, waiters, float64(n)/10/3/float64(waiters))
				cancel()
				for _, w := range ws {
					<-w.Done
				}
				if n > 10*3*waiters*3 {
					t.Error("more than 3 acquisitions per second, node and waiter")
				}
			})
		}
	}
}

// With Config.Redisson, each release is announced to all waiters. Few of them ask because of it.
func TestRedissonAnnouncementsDoNotMakeAllWaitersAsk(t *testing.T) {
	const clients = 16
	for _, redisson := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			var all [][]*fleet.Spy
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			var mu sync.Mutex
			grants := 0
			for range clients {
				c, spies := f.SpiedClient(func(cfg *quorumlock.Config) { cfg.Redisson = redisson })
				all = append(all, spies)
				wg.Go(func() {
					for ctx.Err() == nil {
						l, err := c.RedLock("job").Acquire(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						grants++
						mu.Unlock()
						time.Sleep(20 * time.Millisecond)
						_ = l.Release(ctx)
					}
				})
			}
			wg.Wait()
			perGrant := float64(fleet.TotalAsked(all...)) / 3 / float64(grants)
			t.Logf("redisson %v: %d grants, %.1f acquisitions per grant and node", redisson, grants, perGrant)
			require.Greater(t, grants, 200, "the lock is held for at least 80 % of the time")
			require.Less(t, perGrant, float64(clients), "not every waiter may ask at each release")
		})
	}
}

// A client has a spinning waiter in its local queue. It must not delay a queued waiter behind it.
func TestWaiterBehindSpinningOne(t *testing.T) {
	for _, spins := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			const way = 300 * time.Microsecond
			a, _ := f.DistantClient(way)
			var wg sync.WaitGroup
			for range 3 {
				c, _ := f.DistantClient(way)
				for range 3 {
					wg.Go(func() {
						for ctx.Err() == nil {
							if lease, err := c.RedLock("job").Acquire(ctx); err == nil {
								time.Sleep(2 * time.Millisecond)
								_ = lease.Release(ctx)
							}
						}
					})
				}
			}
			time.Sleep(100 * time.Millisecond)
			if spins {
				wg.Go(func() {
					if l, err := a.RedLock("job").With(quorumlock.LockOptions{Spin: true}).Acquire(ctx); err == nil {
						_ = l.Release(ctx)
					}
				})
				time.Sleep(50 * time.Millisecond)
			}
			began := f.Clock.Now()
			l, err := a.RedLock("job").Acquire(ctx)
			took := f.Clock.Now() - began
			t.Logf("behind a spinning waiter: %v; waited %v, %v", spins, took, err)
			if err == nil {
				_ = l.Release(ctx)
			}
			cancel()
			wg.Wait()
			require.Less(t, took, time.Second)
		})
	}
}
