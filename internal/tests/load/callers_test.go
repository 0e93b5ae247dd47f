//go:build !race

// Package load tests what only many leases, many callers or long queues show. The race detector needs no crowd, and makes one ten
// times slower, so these tests run without it.
package load_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// slowClient makes a client of nodes that take a while for each exchange, and work for each operation.
func slowClient(f *fleet.Fleet, work time.Duration) *quorumlock.Client {
	c, spies := f.SpiedClient()
	for _, s := range spies {
		s.Set(func(s *fleet.Spy) {
			s.Before = func(ops []wire.Op) { time.Sleep(200*time.Microsecond + time.Duration(len(ops))*work) }
		})
	}
	return c
}

// leasesOf lets callers with a patience acquire and release locks of their own in a loop, and returns how many
// leases they got.
func leasesOf(t *testing.T, callers int, patience, work time.Duration) (n int64) {
	t.Helper()
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := slowClient(f, work)
		end := f.Clock.Now() + 400*time.Millisecond
		var served atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			lock := c.RedLock(fmt.Sprint("job", i))
			wg.Go(func() {
				for f.Clock.Now() < end {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					lease, err := lock.Acquire(ctx)
					cancel()
					if err != nil {
						continue
					}
					served.Add(1)
					assert.NoError(t, lease.Release(t.Context()))
				}
			})
		}
		wg.Wait()
		require.Less(t, f.Elapsed(func() { assert.NoError(t, c.Close(t.Context())) }), 100*time.Millisecond)
		f.RequireNoKeys()
		n = served.Load()
	})
	return n
}

// With more demand than the nodes can serve, they serve about as many callers as without. The other callers give up.
func TestCrowdOfImpatientCallersIsServed(t *testing.T) {
	type demand struct {
		callers        int
		patience, work time.Duration // work of a node for an operation
		least          float64
	}
	demands := []demand{
		{512, 10 * time.Millisecond, 20 * time.Microsecond, 0.8},
		{4096, 50 * time.Millisecond, 60 * time.Microsecond, 0.6},
		{512, 10 * time.Millisecond, 10 * time.Microsecond, 0.8},
		{4096, 50 * time.Millisecond, 20 * time.Microsecond, 0.6},
	}
	for _, c := range fleet.Longer(demands[:2], demands) {
		patient, crowd := leasesOf(t, 64, time.Minute, c.work), leasesOf(t, c.callers, c.patience, c.work)
		t.Logf("%+v: %d leases, where 64 patient callers get %d", c, crowd, patient)
		require.Greater(t, float64(crowd), c.least*float64(patient))
	}
}

// So it is with callers that ask whether work is done before they wait for its lock. They need several exchanges, so
// more of them begin in vain.
func TestCrowdOfImpatientWorkersIsServed(t *testing.T) {
	patient, crowd := worksOf(t, 64, time.Minute), worksOf(t, 512, 10*time.Millisecond)
	t.Logf("%d did their work, where 64 patient callers did it %d times", crowd, patient)
	require.Greater(t, float64(crowd), 0.03*float64(patient), "none, if all of them ask")
}

// worksOf lets callers with a patience do work of their own once in a loop, and returns how often they have done it.
func worksOf(t *testing.T, callers int, patience time.Duration) (n int64) {
	t.Helper()
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := slowClient(f, 20*time.Microsecond)
		end := f.Clock.Now() + 200*time.Millisecond
		var done atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := 0; f.Clock.Now() < end; j++ {
					work := c.Once(fmt.Sprintf("work%d of %d", j, i), quorumlock.OnceOptions{Window: time.Hour})
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					if work.Do(ctx, func(context.Context) error { return nil }) == nil {
						done.Add(1)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		n = done.Load()
	})
	return n
}

// The queues are too long for callers with a deadline. When those before them give up, they are asked at once.
func TestCapacityServesParkedCallers(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := slowClient(f, 10*time.Microsecond)
		var wg sync.WaitGroup
		callAll := func(ctx context.Context, n int, prefix string, got func(*quorumlock.Lease, error)) {
			for i := range n {
				lock := c.RedLock(fmt.Sprint(prefix, i))
				wg.Go(func() { got(lock.Acquire(ctx)) })
			}
			fleet.Settle()
		}
		release := func(l *quorumlock.Lease, err error) {
			if assert.NoError(t, err) {
				assert.NoError(t, l.Release(t.Context()))
			}
		}
		callAll(t.Context(), 5000, "pace", release) // so that the pace is known
		wg.Wait()
		crowd, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		callAll(crowd, 5000, "crowd", func(l *quorumlock.Lease, err error) {
			if err == nil {
				assert.NoError(t, l.Release(t.Context()))
			}
		})
		mine, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond) // the queues are 20 exchanges long, of 2.8 ms
		defer cancel()
		var served atomic.Int32
		callAll(mine, 500, "mine", func(l *quorumlock.Lease, err error) {
			served.Add(1)
			release(l, err)
		})
		require.Zero(t, served.Load())
		giveUp()
		// The exchange under way, and three for these calls, as the woken may not come together. These take up to 5.3 ms,
		// since the attempts that were given up are undone beside them.
		time.Sleep(20 * time.Millisecond)
		require.EqualValues(t, 500, served.Load())
		wg.Wait()
	})
}

// Callers without a deadline keep the queues long. A caller that waits for twice as long as they do is served.
func TestCrowdOfPatientCallersStarvesNobody(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := slowClient(f, 20*time.Microsecond)
		var over atomic.Bool
		var took atomic.Int64
		var wg sync.WaitGroup
		for i := range 2048 {
			lock := c.RedLock(fmt.Sprint("job", i))
			wg.Go(func() {
				for !over.Load() {
					began := f.Clock.Now()
					lease, err := lock.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					took.Store(int64(f.Clock.Now() - began))
					assert.NoError(t, lease.Release(t.Context()))
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		for range 10 {
			patience := 2 * time.Duration(took.Load())
			mine, cancel := context.WithTimeout(t.Context(), patience)
			lease, err := c.RedLock("mine").Acquire(mine)
			cancel()
			require.NoError(t, err, "with %v", patience)
			require.NoError(t, lease.Release(t.Context()))
		}
		over.Store(true)
		wg.Wait()
	})
}

// Callers of two clients want the same few locks, and most of them give up: at once, or while their attempt is queued, on
// the wire, or lost. No lock has two holders, a patient caller is served in the end, and nothing is left on the nodes.
func TestImpatientCallersOnHotLocks(t *testing.T) {
	for seed := range uint64(20) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			clients := []*quorumlock.Client{slowClient(f, 300*time.Microsecond), slowClient(f, 100*time.Microsecond)}
			var holders [5]atomic.Int32
			var served atomic.Int32
			var wg sync.WaitGroup
			for i := range 150 {
				lock := clients[i%2].RedLock(fmt.Sprint("job", i%len(holders)))
				switch i % 7 {
				case 0:
					lock = lock.With(quorumlock.LockOptions{Spin: true})
				case 1:
					lock = clients[i%2].MultiLock(fmt.Sprint("job", i%len(holders)))
				}
				holder, starts, patience, hold := &holders[i%len(holders)], rng.Int64N(5e7), rng.Int64N(2e7), rng.Int64N(4e6)
				if i%10 == 0 {
					patience = int64(time.Minute)
				}
				wg.Go(func() {
					time.Sleep(time.Duration(starts))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					defer time.AfterFunc(time.Duration(patience), cancel).Stop()
					lease, err := lock.Acquire(ctx)
					if err != nil {
						assert.Less(t, patience, int64(time.Minute), "%v", err)
						return
					}
					served.Add(1)
					assert.Equal(t, int32(1), holder.Add(1), "holders")
					time.Sleep(time.Duration(hold))
					holder.Add(-1)
					assert.NoError(t, lease.Release(t.Context()))
				})
			}
			wg.Wait()
			fleet.Settle()
			time.Sleep(100 * time.Millisecond)
			f.RequireNoKeys()
			require.Greater(t, served.Load(), int32(15))
		})
	}
}
