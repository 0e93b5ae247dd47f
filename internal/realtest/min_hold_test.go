package realtest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// A lock that is released before its MinHold stays on the servers for the rest, although the client is
// closed. Only then another client gets it.
func TestRealMinHold(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{2 * time.Second, quorumlock.DefaultTTL} {
		t.Run("TTL "+ttl.String(), func(t *testing.T) { testMinHold(t, ttl) })
	}
}

func testMinHold(t *testing.T, ttl time.Duration) {
	const hold = 4 * time.Second
	c := startCluster(t, 3)
	next := c.client().RedLock("job")
	client := c.client(withDefaultTimeouts(ttl))
	began := time.Now()
	lease := acquire(t, client.RedLock("job").With(quorumlock.LockOptions{MinHold: hold}))
	released := time.Now()
	require.NoError(t, lease.Release(t.Context()))
	require.ErrorIs(t, lease.Err(), quorumlock.ErrReleased)
	closeClient(t, client)

	// A majority has the lock for the rest, and nothing renews it any more.
	enough := 0
	for i := range c.servers {
		left, err := strconv.Atoi(c.command(i, "PTTL", "job"))
		require.NoError(t, err)
		if time.Since(began)+time.Duration(left)*time.Millisecond >= hold {
			enough++
		}
	}
	require.GreaterOrEqual(t, enough, 2)

	after := acquire(t, next)
	require.GreaterOrEqual(t, time.Since(began), hold)
	require.Greater(t, after.Token(), lease.Token())
	t.Logf("the next client got the lock %v after the first, which released it after %v", time.Since(began), released.Sub(began))
	require.NoError(t, after.Release(t.Context()))
}
