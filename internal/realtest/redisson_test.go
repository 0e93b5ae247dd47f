package realtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

const redissonChannel = "redisson_lock__channel:{job}"

// mixed configures a client for a fleet with Redisson.
func mixed(cfg *quorumlock.Config) { cfg.Redisson = true }

// A waiter gets a lock as soon as Redisson's script releases it, and not only at its next look.
func TestRealAReleaseByRedissonWakes(t *testing.T) {
	c := startCluster(t, 3)
	lock := c.client(mixed).RedLock("job")
	strain := testkit.MeasureStrain(t)
	for range 3 {
		c.plant("job", "java:1", 10*time.Second, 0, 1, 2)
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
		}, 10*time.Second, time.Millisecond, "it waits, and listens")
		released := time.Now()
		for i := range c.servers {
			c.command(i, "DEL", "job")
			c.command(i, "PUBLISH", redissonChannel, "0")
		}
		took := in(t, granted, "it has the lock").Sub(released)
		require.NoError(t, in(t, done, "it has given the lock back"))
		c.noKeys() // else it could meet the next of Redisson
		require.Eventually(t, func() bool { return c.listeners(0) == 0 }, 10*time.Second, time.Millisecond, "it listens no more")
		strain.Within(t, took, 500*time.Millisecond, "it has the lock before it looks by itself")
	}
}

// listeners returns the number of subscribers to Redisson's channel on a node.
func (c *cluster) listeners(i int) int {
	c.t.Helper()
	return c.number(i, "EVAL", "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]", "0", redissonChannel)
}

// Redisson's waiters expect the message 0.
func TestRealAReleaseIsAnnouncedToRedisson(t *testing.T) {
	c := startCluster(t, 3)
	java, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.servers[1].Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer java.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	heard := make(chan string, 1000)
	go func() {
		_ = java.Receive(ctx, java.B().Subscribe().Channel(redissonChannel).Build(), func(m rueidis.PubSubMessage) {
			heard <- m.Message
		})
	}()
	require.Eventually(t, func() bool { return c.listeners(1) == 1 }, 10*time.Second, time.Millisecond)

	silent := acquire(t, c.client().RedLock("job"))
	require.NoError(t, silent.Release(ctx))
	c.noKeys()
	c.command(1, "PUBLISH", redissonChannel, "so far")
	require.Equal(t, "so far", in(t, heard, "what is published is heard"), "announced only where it was asked for")
	loud := c.client(mixed).MultiLock("job") // on all nodes: where it was not had, there is nothing to announce
	require.NoError(t, acquire(t, loud).Release(ctx))
	c.noKeys()
	_ = acquire(t, loud)
	_, err = loud.ForceRelease(ctx)
	require.NoError(t, err)
	for range 2 { // or more, where an attempt has failed
		require.Equal(t, "0", in(t, heard, "a release is announced"))
	}
}
