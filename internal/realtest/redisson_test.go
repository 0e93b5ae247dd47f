package realtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

const redissonChannel = "redisson_lock__channel:{job}"

// mixed configures a client for locks that are shared with Redisson.
func mixed(cfg *quorumlock.Config) { cfg.Redisson = true }

// A release by Redisson's script wakes a waiter at once. The waiter does not need its next poll.
func TestRealRedissonReleaseWakesWaiter(t *testing.T) {
	c := startCluster(t, 3)
	lock := c.client(mixed).RedLock("job")
	// A wake takes some milliseconds, and a poll comes nearly a second later. A busy machine makes some wakes late.
	woken := 0
	for try := 0; woken < 3; try++ {
		require.Less(t, try, 6, "the wakes, and not polls, give the lock to the waiter")
		c.plant("java:1", 10*time.Second, 0, 1, 2)
		granted, done, ctx := make(chan time.Time, 1), make(chan error, 1), withDeadline(t)
		go func() {
			done <- lock.Do(ctx, func(context.Context) error {
				granted <- time.Now()
				return nil
			})
		}()
		require.Eventually(t, func() bool {
			for i := range c.servers {
				if c.number(i, "ZCARD", "quorumlock:queue:{job}") != 1 || c.listeners(i) != 1 {
					return false
				}
			}
			return true
		}, 10*time.Second, time.Millisecond, "the waiter is in the queues, and subscribed")
		released := time.Now()
		for i := range c.servers {
			c.command(i, "DEL", "job")
			c.command(i, "PUBLISH", redissonChannel, "0")
		}
		took := in(t, granted, "the waiter has the lock").Sub(released)
		require.NoError(t, in(t, done, "the waiter has released the lock"))
		c.noKeys() // Otherwise a key could remain when Redisson locks next.
		if took < 500*time.Millisecond {
			woken++
		}
	}
}

// listeners returns the number of patterns of channels to which somebody has subscribed on a node.
func (c *cluster) listeners(i int) int {
	c.t.Helper()
	return c.number(i, "PUBSUB", "NUMPAT")
}

// To Redisson's script, readers hold the lock as one other owner. So Redisson acts as a writer.
func TestRealRedissonActsAsWriter(t *testing.T) {
	c := startCluster(t, 3)
	rw := c.client().RWLock("job")
	c.plant("java:1", 10*time.Second, 0, 1, 2)
	_, err := rw.Read().TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	for i := range c.servers {
		c.command(i, "DEL", "job")
	}
	reader := acquire(t, rw.Read())
	for i := range c.servers {
		eventually(t, soon, func() bool { return c.number(i, "EXISTS", "job") == 1 }, "it is there")
		// RLock.tryLock takes a lock whose key is missing or has its own field.
		require.Equal(t, 0, c.number(i, "HEXISTS", "job", "java:1"))
		left := c.number(i, "PTTL", "job")
		require.Positive(t, left, "the key of the readers has a TTL")
		require.LessOrEqual(t, left, int(quorumlock.DefaultTTL.Milliseconds()))
	}
	require.NoError(t, reader.Release(t.Context()))
	c.noKeys()
}
