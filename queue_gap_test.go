package quorumlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// Two attempts of one waiter that reach a node in one batch: the first has the node, and so
// denies the second. The waiter has to learn that it gave the node back.
func TestTwoAttemptsInOneBatch(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, ways := f.hookedClient()
		before := held(t, f.client().RedLock("job"))
		waits := acquiring(t.Context(), t, c.MultiLock("job", "other"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.has().Release(t.Context()))
		settled() // the inboxes are there

		f.take("other", "x", 0)
		proceed := make(chan struct{})
		var once sync.Once
		ways[2].set(func([]node.Op) { once.Do(func() { <-proceed }) }, nil)
		_, _ = c.RedLock("third").TryAcquire(t.Context()) // keeps the way to the third node busy
		waits = acquiring(t.Context(), t, c.MultiLock("job", "other"))
		require.True(t, waits.waits()) // denied by the first node; not sent to the third
		f.free("other", "x", 0)
		time.Sleep(20 * time.Millisecond) // the next attempt is under way
		require.True(t, waits.waits())
		close(proceed)
		took := f.elapsed(func() { <-waits.done })
		t.Log(took)
		require.LessOrEqual(t, took, 60*time.Millisecond)
		require.NoError(t, waits.has().Release(t.Context()))
	})
}
