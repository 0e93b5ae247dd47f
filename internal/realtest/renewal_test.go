package realtest_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// These functions are parts of TestRealIssuesOfOtherLibraries.

func renewalFailureIsTold(t *testing.T, c *cluster) {
	failed := make(chan quorumlock.RenewalFailedEvent, 1000)
	ended := make(chan quorumlock.EndedEvent, 1)
	const ttl = 6 * time.Second // A renewal begins before this is over, although the faults below take their time.
	client := c.client(withTTL(ttl), func(cfg *quorumlock.Config) {
		cfg.Hooks.RenewalFailed = func(e quorumlock.RenewalFailedEvent) { failed <- e }
		cfg.Hooks.Ended = func(e quorumlock.EndedEvent) { ended <- e }
	})
	lease := acquire(t, client.RedLock("job"))
	c.kill(0, 1)
	c.pause(2)
	first := in(t, failed, "the failed renewal is reported")
	require.ErrorIs(t, first.Err, quorumlock.ErrNoQuorum)
	require.Equal(t, lease.Owner(), first.Owner)
	require.Positive(t, first.Remaining, "the report comes before the lease ends")

	cause := ends(t, lease, ttl+atMost)
	require.ErrorIs(t, cause, quorumlock.ErrLost)
	end := in(t, ended, "the end is reported")
	require.Equal(t, cause, end.Err)
	require.Equal(t, lease.Owner(), end.Owner)
	c.resume(2)
}

func renewalEndsWithTheLease(t *testing.T, c *cluster) {
	const ttl = 3 * time.Second
	lock := c.client(withTTL(ttl)).RedLock("job")
	for range 100 { // Some releases come during a renewal.
		lease := acquire(t, lock)
		var extending sync.WaitGroup
		extending.Go(func() { _ = lease.Extend(t.Context()) })
		require.NoError(t, lease.Release(t.Context()))
		extending.Wait()
	}
	c.noKeys()
	before := -1
	eventually(t, atMost, func() bool { // A busy machine may repeat a release whose answer came late.
		last := before
		before = c.calls(0)
		if last != before {
			time.Sleep(time.Second)
		}
		return last == before
	}, "the releases end")
	<-time.After(ttl * 3 / 2)
	require.Equal(t, before, c.calls(0), "the client sends nothing for a released lease")
	c.noKeys()
}

func renewalSurvivesReconnects(t *testing.T, c *cluster) {
	const ttl = patientTTL
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

func renewalIsRetried(t *testing.T, c *cluster) {
	failed, renewed := make(chan struct{}, 1000), make(chan struct{}, 1000)
	client := c.client(func(cfg *quorumlock.Config) {
		cfg.TTL = 9 * time.Second
		cfg.Hooks.RenewalFailed = func(quorumlock.RenewalFailedEvent) { failed <- struct{}{} }
		cfg.Hooks.Renewed = func(quorumlock.RenewedEvent) { renewed <- struct{}{} }
	})
	lease := acquire(t, client.RedLock("job"))
	c.pause(0, 1, 2, 3, 4)
	for range 2 { // The TTL is 9 s. The renewals fail at 3 s and a little later.
		in(t, failed, "the failed renewal is reported")
	}
	c.resume(0, 1, 2, 3, 4)
	for len(renewed) > 0 {
		<-renewed
	}
	select {
	case <-renewed:
	case <-lease.Context().Done():
		t.Fatalf("the failed renewal is retried in time; %v", lease.Err())
	}
	require.NoError(t, lease.Err())
	c.holds("job", lease.Owner())
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()
}

func holdsAreLimited(t *testing.T, c *cluster) {
	const ttl = 6 * time.Second
	client := c.client(withTTL(ttl))
	limited := acquire(t, client.RedLock("limited").With(quorumlock.LockOptions{MaxHold: ttl * 3 / 2}))
	require.ErrorIs(t, ends(t, limited, atMost), quorumlock.ErrHoldLimit)
	require.ErrorIs(t, limited.Release(t.Context()), quorumlock.ErrHoldLimit)
	c.noKeys()

	func() { acquire(t, client.RedLock("dropped")) }()
	eventually(t, 3*soon, func() bool { runtime.GC(); return len(c.locks(0)) == 0 }, "a leaked lease is released")
	c.noKeys()
}

// releaseRaces runs releases against new acquisitions, extensions and Close. No lock is held after
// Close has returned without an error.
func releaseRaces(t *testing.T, c *cluster) {
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
