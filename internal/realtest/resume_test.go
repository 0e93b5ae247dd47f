package realtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// A client acquires a lock and closes. Another one goes on with the lease, beyond its first TTL, and releases it.
func TestRealResume(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	for name, lock := range map[string]func(c *quorumlock.Client) *quorumlock.Lock{
		"RedLock":   func(c *quorumlock.Client) *quorumlock.Lock { return c.RedLock("job") },
		"MultiLock": func(c *quorumlock.Client) *quorumlock.Lock { return c.MultiLock("job", "other") },
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 3)
			fixed := quorumlock.LockOptions{TTL: ttl, Fixed: true}
			handler, worker := c.client(), c.client()
			first := acquire(t, lock(handler).With(fixed))
			began := time.Now()
			require.NoError(t, first.Detach())
			closeClient(t, handler)

			second, err := lock(worker).With(fixed).Resume(t.Context(), first.Owner(), first.Token())
			if time.Since(began) > ttl/2 {
				testkit.Inconclusive(t, "the machine was too busy to resume in time: %v", err)
			}
			require.NoError(t, err)
			require.Equal(t, first.Owner(), second.Owner())
			require.Equal(t, first.Token(), second.Token())
			require.NoError(t, second.ExtendFor(t.Context(), quorumlock.DefaultTTL))
			time.Sleep(time.Until(began.Add(ttl + time.Second))) // nothing of the first client ends it
			require.NoError(t, second.Err())
			c.holds("job", second.Owner())
			_, err = lock(c.client()).TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld)

			require.NoError(t, second.Release(t.Context()))
			next := acquire(t, lock(worker))
			require.Greater(t, next.Token(), second.Token())
			_, err = lock(worker).With(fixed).Resume(t.Context(), first.Owner(), first.Token())
			require.ErrorIs(t, err, quorumlock.ErrLost)
			require.NoError(t, next.Release(t.Context()))
		})
	}
}
