//go:build unix

package realtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

func TestRealCloseEndsSubscriptions(t *testing.T) {
	c := startCluster(t, 5)
	held := acquire(t, c.client().RedLock("job"))
	client, done := c.client(), make(chan error, 1)
	go func() {
		_, err := client.RedLock("job").Acquire(withDeadline(t))
		done <- err
	}()
	c.queued(1)
	closeClient(t, client)
	require.ErrorIs(t, in(t, done, "Close ends the wait"), quorumlock.ErrClosed)
	for i := range c.servers { // The servers notice the closed connections a moment later.
		eventually(t, soon, func() bool { return !strings.Contains(c.command(i, "CLIENT", "LIST", "TYPE", "pubsub"), "id=") },
			"no connection to node %d is subscribed", i)
	}
	c.queued(0)
	require.NoError(t, held.Release(t.Context()))
	c.noKeys()
}
