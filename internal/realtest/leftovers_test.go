package realtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// The TTL of these tests is 10 s. The keys must be gone long before they would expire.

func TestRealHungNodeKeepsNoKeys(t *testing.T) {
	for _, round := range []struct {
		what string
		do   func(t *testing.T, c *cluster, client *quorumlock.Client)
	}{
		{"won and released", func(t *testing.T, _ *cluster, client *quorumlock.Client) {
			require.NoError(t, acquire(t, client.RedLock("job")).Release(t.Context()))
		}},
		{"lost", func(t *testing.T, c *cluster, client *quorumlock.Client) {
			c.plant("x:1", time.Minute, 0, 1, 2)
			_, err := client.RedLock("job").TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld)
			for i := range 3 {
				c.command(i, "DEL", "job")
			}
		}},
		{"denied to a MultiLock", func(t *testing.T, _ *cluster, client *quorumlock.Client) {
			_, err := client.MultiLock("job", "task").TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		}},
		{"cancelled", func(t *testing.T, _ *cluster, client *quorumlock.Client) {
			// It must be sent before the context ends, and the context must end before the node timeout of 1 s.
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := client.MultiLock("job").Acquire(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}},
	} {
		t.Run(round.what, func(t *testing.T) {
			c := startCluster(t, 5)
			client := c.client()
			require.NoError(t, acquire(t, client.RedLock("warm")).Release(t.Context()))
			c.noKeys()
			ran := c.calls(4)
			c.pause(4)
			round.do(t, c, client)
			c.resume(4)
			eventually(t, soon, func() bool { return c.calls(4) > ran }, "the node has run what was sent to it")
			c.noKeys()
		})
	}
}

// A node hangs for longer than the TTL and runs the acquisition afterwards. The client must still
// know that it has to undo it.
func TestRealNodeHungForLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	c := startCluster(t, 5)
	lock := c.client(withTTL(ttl)).RedLock("job")
	require.NoError(t, acquire(t, lock).Release(t.Context()))
	c.noKeys()

	ran := c.calls(4)
	c.pause(4)
	require.NoError(t, acquire(t, lock).Release(t.Context()))
	<-time.After(ttl * 3 / 2)
	c.resume(4)
	// The key may appear for a moment. Its own TTL ends only after soon.
	eventually(t, soon, func() bool { return c.calls(4) > ran }, "the node has run what was sent to it")
	eventually(t, soon, func() bool { return c.owner(4, "job") == "" },
		"the node that resumed has released the lock")
}
