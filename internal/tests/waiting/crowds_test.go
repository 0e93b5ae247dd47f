package waiting_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// Sixty waiters wait for the expiry of one lock. They do not all ask at once: a waiter that is denied waits until
// a release wakes it.
func TestManyWaitersForOneExpiryAskInTurn(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		const crowd = 60
		r := &fleet.Referee{T: t}
		var watched [][]*fleet.Spy
		var wg sync.WaitGroup
		f.Client()
		f.Take("job", "dead", 0, 1, 2, 3, 4)
		for range crowd {
			c, spies := f.SpiedClient()
			watched = append(watched, spies)
			wg.Go(func() {
				lease, err := c.RedLock("job").Acquire(t.Context())
				if !assert.NoError(t, err) { //nolint:testifylint // not the goroutine of the test
					return
				}
				r.Grant(lease)
				time.Sleep(time.Millisecond)
				assert.NoError(t, lease.Release(t.Context()))
			})
			fleet.Settle()
			time.Sleep(100 * time.Microsecond)
		}
		asked := func() (n int) {
			for _, spies := range watched {
				for _, s := range spies {
					n += s.Asked()
				}
			}
			return n / len(f.Nodes)
		}
		require.LessOrEqual(t, asked(), 2*crowd+crowd/10)
		time.Sleep(quorumlock.DefaultTTL - 50*time.Millisecond)
		before := asked()
		require.LessOrEqual(t, before, crowd*(2+10*4/3+1), "each waiter rechecks a few times")
		took := f.Elapsed(wg.Wait)
		require.LessOrEqual(t, took, 50*time.Millisecond+crowd*2*time.Millisecond)
		t.Log(took, asked()-before)
		require.LessOrEqual(t, asked()-before, 4*crowd)
	})
}

// A waiter that needs two names acquires them, although other clients always contend for each of them.
func TestMultiLockOfContendedNamesIsServed(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i, name := range []string{"a", "b", "a", "b"} {
			c := f.Client()
			wg.Go(func() {
				for ctx.Err() == nil {
					lease, err := c.RedLock(name).Acquire(ctx)
					if err != nil {
						return
					}
					time.Sleep(time.Duration(3+i) * time.Millisecond)
					assert.NoError(t, lease.Release(ctx))
				}
			})
		}
		both := f.Client().MultiLock("a", "b")
		for range 10 {
			time.Sleep(33 * time.Millisecond)
			var lease *quorumlock.Lease
			took := f.Elapsed(func() {
				var err error
				lease, err = both.Acquire(ctx)
				require.NoError(t, err)
			})
			require.Less(t, took, time.Second)
			require.NoError(t, lease.Release(ctx))
		}
		cancel()
		wg.Wait()
		f.RequireNoKeys()
	})
}

// Dead or hung waiters are at the heads of the queues, on a majority of the nodes or on all of them. They delay the
// waiters behind them only briefly.
func TestStaleQueueHeadsBlockBriefly(t *testing.T) {
	for _, c := range []struct {
		listen bool
		heads  int
		nodes  []int
		most   time.Duration
	}{
		{false, 40, []int{0, 1, 2}, time.Millisecond},
		{false, 40, []int{0, 1, 2, 3, 4}, time.Millisecond},
		{true, 1, []int{0, 1, 2}, 60 * time.Millisecond},
		{true, 4, []int{0, 1, 2}, 4 * 60 * time.Millisecond},
		// Nodes wake the first two waiters. Later ones ask again after a second.
		{true, 4, []int{0, 1, 2, 3, 4}, time.Second + 4*60*time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				before := fleet.MustAcquire(t, f.Client().RedLock("job"))
				for i := range c.heads {
					f.Freeze(time.Minute, fmt.Sprint("head", i), int64(i+1), c.listen, c.nodes...)
				}
				job := f.Client().RedLock("job")
				waits := fleet.StartAcquire(t.Context(), t, job)
				time.Sleep(10 * time.Millisecond)
				require.NoError(t, before.Release(t.Context()))
				took := f.Elapsed(func() { <-waits.Done })
				t.Log(took)
				require.LessOrEqual(t, took, c.most)
				next := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
				require.NoError(t, waits.Has().Release(t.Context()))
				require.LessOrEqual(t, f.Elapsed(func() { <-next.Done }), c.most+60*time.Millisecond)
			})
		})
	}
}
