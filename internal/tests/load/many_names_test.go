//go:build !race

package load_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// 1,000 waiters of one client for 1,000 names cost each node at most 20 scripts a second, and none of them asks for
// long. All get their locks once these are released.
func TestManyNamesCostFewScripts(t *testing.T) {
	names, span := 1000, 10*time.Second
	batches := float64((names + 63) / 64)
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		holder := f.Client()
		held := make([]*quorumlock.Lease, names)
		for i := range held {
			held[i] = fleet.MustAcquire(t, holder.RedLock(fmt.Sprint("job", i)))
		}
		c, spies := f.SpiedClient()
		var waits sync.WaitGroup
		var served atomic.Int64
		for i := range held {
			waits.Go(func() {
				l, err := c.RedLock(fmt.Sprint("job", i)).Acquire(t.Context())
				if assert.NoError(t, err) {
					served.Add(1)
					assert.NoError(t, l.Release(t.Context()))
				}
			})
		}
		time.Sleep(5 * time.Second)
		var scripts, most atomic.Int64
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) {
				s.Before = func(ops []wire.Op) {
					scripts.Add(int64(len(ops))) // each has at most one
					for _, op := range ops {
						most.Store(max(most.Load(), int64(len(op.Names))))
					}
				}
			})
		}
		time.Sleep(span)
		rate := float64(scripts.Load()) / 3 / span.Seconds()
		t.Logf("%.1f scripts a second and node", rate)
		require.LessOrEqual(t, rate, batches*5/4)
		require.Greater(t, rate, batches*5/8)
		require.LessOrEqual(t, most.Load(), int64(64))
		for _, l := range held {
			require.NoError(t, l.Release(t.Context()))
		}
		waits.Wait()
		require.Equal(t, int64(names), served.Load())
		f.RequireNoKeys()
	})
}

// Nodes do not forget the waiters of a distant client while it tells them of hundreds of names, and wake them at once.
func TestBeatOfADistantClientKeepsAllEntries(t *testing.T) {
	names := 800
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		holder := f.Client()
		held := make([]*quorumlock.Lease, names)
		for i := range held {
			held[i] = fleet.MustAcquire(t, holder.RedLock(fmt.Sprint("job", i)))
		}
		c, _ := f.DistantClient(200 * time.Millisecond)
		ctx, giveUp := context.WithCancel(t.Context())
		var waits sync.WaitGroup
		got := make(chan *quorumlock.Lease, names)
		for _, l := range held {
			waits.Go(func() {
				if l, err := c.RedLock(l.Names()[0]).Acquire(ctx); err == nil {
					got <- l
				}
			})
		}
		time.Sleep(15 * time.Second)
		for i := 0; i < names; i += 50 {
			require.NoError(t, held[i].Release(t.Context()))
			var l *quorumlock.Lease
			require.LessOrEqual(t, f.Elapsed(func() { l = <-got }), time.Second)
			require.Equal(t, held[i].Names(), l.Names())
			require.NoError(t, l.Release(t.Context()))
		}
		giveUp()
		waits.Wait()
	})
}

// Waiters for many names each share an operation only as far as its limit allows.
func TestBeatsOfManyNamesEachAreBounded(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		holder := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		var waits []*fleet.Acquisition
		for i := range 5 {
			names := []string{"job"}
			for j := range 39 {
				names = append(names, fmt.Sprint(i, "-", j))
			}
			waits = append(waits, fleet.StartAcquire(t.Context(), t, c.MultiLock(names...)))
		}
		var mu sync.Mutex
		most := 0
		spies[0].Set(func(s *fleet.Spy) {
			s.Before = func(ops []wire.Op) {
				mu.Lock()
				defer mu.Unlock()
				for _, op := range ops {
					if op.Kind == wire.Refresh {
						most = max(most, len(op.Names))
					}
				}
			}
		})
		time.Sleep(5 * time.Second)
		mu.Lock()
		require.Equal(t, 40, most)
		mu.Unlock()
		require.NoError(t, holder.Release(t.Context()))
		for range waits {
			served := false
			for _, w := range waits {
				if !served && !w.Waits() && w.Lease != nil {
					require.NoError(t, w.Lease.Release(t.Context()))
					w.Lease, served = nil, true
				}
			}
			require.True(t, served)
		}
		f.RequireNoKeys()
	})
}
