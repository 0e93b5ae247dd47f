package realtest_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

func TestRealForceReleaseEndsLiveLease(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	c := startCluster(t, 5)
	lease := acquire(t, c.client(withTTL(ttl)).RedLock("job"))
	c.holds("job", lease.Owner())
	admin := c.client(withTTL(ttl)).RedLock("job")

	status, err := admin.ForceRelease(t.Context())
	require.NoError(t, err)
	require.Equal(t, lease.Owner(), status.Holder(), "ForceRelease returns the former holder")
	for i := range c.servers {
		require.Empty(t, c.owner(i, "job"))
	}
	next, err := admin.TryAcquire(t.Context())
	require.NoError(t, err, "the lock must be free at once")

	cause := ends(t, lease, ttl+soon)
	require.ErrorIs(t, cause, quorumlock.ErrLost)
	require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	staysValid(t, next, ttl*3/2)
	c.holds("job", next.Owner())
	require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
	c.holds("job", next.Owner())
	require.NoError(t, next.Release(t.Context()))
}

// A holder whose client has waiters, and so subscriptions, learns of a forced release at once. A Fixed lease would never
// learn of it otherwise.
func TestRealForceReleaseTellsTheHolder(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour // no end of a TTL comes first
	long := func(cfg *quorumlock.Config) { cfg.MaxTTL = ttl }
	c := startCluster(t, 3)
	client := c.client(long)
	other := acquire(t, c.client(long).RedLock("another"))
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := client.RedLock("another").Acquire(ctx)
		waited <- err
	}()
	for i := range c.servers {
		require.Eventually(t, func() bool { return c.command(i, "PUBSUB", "CHANNELS", "quorumlock:inbox:*") != "" }, 20*time.Second, time.Millisecond)
	}

	lease := acquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: ttl, Fixed: true}))
	began := time.Now()
	_, err := c.client(long).RedLock("job").ForceRelease(t.Context())
	require.NoError(t, err)
	cause := ends(t, lease, 30*time.Second)
	t.Logf("the holder knew %v after the call", time.Since(began))
	var lost *quorumlock.LostError
	require.ErrorAs(t, cause, &lost)
	require.Equal(t, quorumlock.LossForced, lost.Cause)
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	require.NoError(t, other.Release(t.Context()))
}

func TestRealForceReleasedLeaseDoesNotComeBack(t *testing.T) {
	const ttl = 5 * time.Second
	c := startCluster(t, 5)
	lease := acquire(t, c.client(withTTL(ttl)).RedLock("job"))
	c.holds("job", lease.Owner())
	// One node lost the lock before. It must deny the former holder, too.
	c.command(2, "DEL", "job")
	_, err := c.client().RedLock("job").ForceRelease(t.Context())
	require.NoError(t, err)

	cause := ends(t, lease, ttl+soon)
	require.ErrorIs(t, cause, quorumlock.ErrLost)
	require.ErrorContains(t, cause, "by force")
	for i := range c.servers {
		keys := c.locks(i)
		require.Len(t, keys, 1, "node %d must have a tombstone and no lock: %v", i, keys)
		require.True(t, strings.HasPrefix(keys[0], "quorumlock:tombstone:{job}:"), keys[0])
		require.Positive(t, c.number(i, "PTTL", keys[0]), "the tombstone has no TTL")
	}
	_, err = c.client().RedLock("free").ForceRelease(t.Context())
	require.NoError(t, err, "ForceRelease of a free lock does no harm")
}

func TestRealKeyLayoutIsRedissons(t *testing.T) {
	c := startCluster(t, 5)
	client := c.client()
	lease := acquire(t, client.RedLock("job"))
	c.holds("job", lease.Owner())
	for i := range c.servers {
		require.Equal(t, "hash", c.command(i, "TYPE", "job"))
		field, token, _ := strings.Cut(c.command(i, "HGETALL", "job"), "\n")
		require.Equal(t, lease.Owner(), field, "the key must be a hash with the owner as its only field")
		last, err := strconv.ParseUint(token, 10, 64)
		require.NoError(t, err, "the field has the largest token that the owner may use")
		require.GreaterOrEqual(t, last, lease.Token())
		left := c.number(i, "PTTL", "job")
		require.Positive(t, left)
		require.LessOrEqual(t, left, int(quorumlock.DefaultTTL.Milliseconds()))
	}
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()

	// A lock of Redisson excludes this library, which does not change it.
	const thread = "8743c9c0-0795-4907-87fd-6c719a6b4586:31"
	c.plant("job", thread, 30*time.Second, 0, 1, 2, 3, 4)
	_, err := client.RedLock("job").TryAcquire(t.Context())
	var held *quorumlock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, thread, held.Owner)
	require.Greater(t, held.TTL, 20*time.Second)
	_, err = client.MultiLock("job", "task").TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	c.holds("job", thread)
	c.holds("task", "")

	// The lock is free once Redisson has released it on a majority.
	for i := range 3 {
		c.command(i, "DEL", "job")
	}
	lease = acquire(t, client.RedLock("job"))
	require.Equal(t, thread, c.owner(4, "job"))
	require.NoError(t, lease.Release(t.Context()))
	require.Equal(t, thread, c.owner(4, "job"))
}
