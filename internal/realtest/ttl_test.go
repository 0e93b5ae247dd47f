package realtest_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Locks with a TTL of 100 ms work with the default configuration. Three clients contend, and each holder renews for
// several TTLs. No two leases are valid at once, even on a busy machine. A holder may lose its lease if the machine
// stalls for most of a TTL. That is no failure of this test.
func TestRealShortTTL(t *testing.T) {
	const ttl = 100 * time.Millisecond
	c := startCluster(t, 3)
	witness := newOnlooker(t, []string{"job"})
	var longest atomic.Int64
	var lost, kept atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	began := time.Now()
	// The test takes at least two seconds and goes on until a lease was renewed for three TTLs.
	over := func() bool {
		return ctx.Err() != nil || time.Since(began) > 2*time.Second && longest.Load() > int64(3*ttl)
	}
	var contenders sync.WaitGroup
	for range 3 {
		lock := c.client(withDefaultTimeouts(quorumlock.DefaultTTL)).RedLock("job").With(quorumlock.LockOptions{TTL: ttl})
		contenders.Go(func() {
			for !over() {
				lease, err := lock.Acquire(ctx)
				if err != nil {
					assert.ErrorIs(t, err, context.DeadlineExceeded, "Acquire may fail only at the end of the test")
					return
				}
				witness.enter("job", lease)
				granted := time.Now()
				select {
				case <-lease.Context().Done():
				case <-time.After(4 * ttl):
				}
				if lease.Err() == nil {
					longest.Store(max(longest.Load(), int64(time.Since(granted))))
				}
				witness.leave("job", lease)
				switch err := lease.Release(ctx); {
				case err == nil:
					kept.Add(1)
				case errors.Is(err, quorumlock.ErrLost):
					lost.Add(1)
				case !errors.Is(err, quorumlock.ErrNoQuorum): // On a busy machine, the confirmation may come too late.
					t.Errorf("the release failed: %v", err)
				}
			}
		})
	}
	contenders.Wait()
	t.Logf("%d leases were released and %d lost; one was valid for %v", kept.Load(), lost.Load(), time.Duration(longest.Load()))
	eventually(t, soon, func() bool {
		for i := range c.servers {
			if c.owner(i, "job") != "" {
				return false
			}
		}
		return true
	}, "remaining keys expire")
	require.Greater(t, time.Duration(longest.Load()), 3*ttl, "one of %d leases is kept for three TTLs", witness.total())
}
