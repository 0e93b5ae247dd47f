package realtest_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/quorumlock"
)

// Compare redisson #3194 and #3712: the renewal dies after a reconnect.
func TestRealRenewalSurvivesReconnects(t *testing.T) {
	t.Parallel()
	const ttl = patientTTL
	c := startCluster(t, 5)
	lease := acquire(t, c.client(withTTL(ttl)).RedLock("job"))
	for range 4 {
		for i := range c.servers {
			c.command(i, "CLIENT", "KILL", "TYPE", "normal")
			c.command(i, "SCRIPT", "FLUSH")
		}
		staysValid(t, lease, ttl*3/4)
	}
	c.holds("job", lease.Owner())
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()
}

// Releases run against new acquisitions, extensions and Close. No lock is held after Close has returned without an error.
// Compare rueidis #457, #301 and #653.
func TestRealReleaseAgainstAcquireAndClose(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	client, ctx := c.client(), withDeadline(t)
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 30 {
				lease, err := client.RedLock("job").Acquire(ctx)
				if err != nil {
					t.Errorf("a released lock could not be acquired: %v", err)
					return
				}
				var others sync.WaitGroup
				others.Go(func() { _ = lease.Extend(ctx) })
				others.Go(func() { _ = lease.Release(ctx) })
				others.Go(func() { _ = lease.Release(ctx) })
				others.Wait()
				assert.ErrorIs(t, lease.Err(), quorumlock.ErrReleased)
			}
		})
	}
	users.Wait()
	c.noKeys()

	for range 30 {
		closeAgainstRelease(t, c)
	}
}

func closeAgainstRelease(t *testing.T, c *cluster) {
	client, deadline := c.client(withTTL(quorumlock.DefaultTTL)), withDeadline(t)
	leases := make([]*quorumlock.Lease, 64)
	inParallel(t, len(leases), func(i int) (err error) {
		leases[i], err = client.RedLock("lock:" + strconv.Itoa(i)).Acquire(deadline)
		return err
	})
	start := make(chan struct{})
	var users sync.WaitGroup
	for _, lease := range leases {
		users.Go(func() {
			<-start
			_ = lease.Release(t.Context())
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	close(start)
	runtime.Gosched()
	err := client.Close(ctx)
	users.Wait()
	require.NoError(t, ctx.Err(), "Close did not end in time")
	require.NoError(t, err, "all nodes answer")
	for i := range c.servers {
		require.Empty(t, c.locks(i), "node %d has keys after Close returned no error", i)
	}
}

// inParallel runs a function n times, 64 at a time.
func inParallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	require.NoError(t, group.Wait())
}
