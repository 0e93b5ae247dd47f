package realtest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorum"
)

// A lock that is released before its MinHold stays on the servers for the rest, although the client is
// closed. Only then another client gets it.
func TestRealMinHold(t *testing.T) {
	t.Parallel()
	const hold = 4 * time.Second
	c := startCluster(t, 3)
	next := c.client().RedLock("job")
	for _, ttl := range []time.Duration{2 * time.Second, quorumlock.DefaultTTL} {
		client := c.client(withDefaultTimeouts(ttl))
		began := time.Now()
		lease := acquire(t, client.RedLock("job").With(quorumlock.LockOptions{MinHold: hold}))
		released := time.Now()
		if err := lease.Release(t.Context()); err != nil {
			t.Logf("INCONCLUSIVE: the machine was too busy to keep the lease: %v", err)
			continue
		}
		require.ErrorIs(t, lease.Err(), quorumlock.ErrReleased)
		closeClient(t, client)

		// A majority has the lock for the rest, even if nothing renews it. The rest counts from the grant,
		// which is before released.
		enough := 0
		for i := range c.servers {
			left, err := strconv.Atoi(c.command(i, "PTTL", "job"))
			require.NoError(t, err)
			sent := time.Since(released) // the server answered before that
			if time.Duration(left)*time.Millisecond+sent >= hold-(released.Sub(began)) {
				enough++
			}
		}
		require.GreaterOrEqual(t, enough, 2)

		after := acquire(t, next)
		require.GreaterOrEqual(t, time.Since(began), hold, "with TTL %v", ttl)
		require.Greater(t, after.Token(), lease.Token())
		t.Logf("TTL %v: the next client got the lock %v after the first, of at most %v", ttl, time.Since(began), max(ttl, quorum.TTLFor(hold)))
		require.NoError(t, after.Release(t.Context()))
	}
}
