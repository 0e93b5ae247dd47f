package waiting_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// Two attempts of one waiter that reach a node in one batch: the first has the node, and so
// denies the second. The waiter has to learn that it gave the node back.
func TestTwoAttemptsInOneBatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, ways := f.HookedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.Has().Release(t.Context()))
		fleet.Settle() // the inboxes are there

		f.Take("other", "x", 0)
		proceed := make(chan struct{})
		var once sync.Once
		ways[2].Set(func([]node.Op) { once.Do(func() { <-proceed }) }, nil)
		_, _ = c.RedLock("third").TryAcquire(t.Context()) // keeps the way to the third node busy
		waits = fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.True(t, waits.Waits()) // denied by the first node; not sent to the third
		f.Free("other", "x", 0)
		time.Sleep(20 * time.Millisecond) // the next attempt is under way
		require.True(t, waits.Waits())
		close(proceed)
		took := f.Elapsed(func() { <-waits.Done })
		t.Log(took)
		require.LessOrEqual(t, took, 60*time.Millisecond)
		require.NoError(t, waits.Has().Release(t.Context()))
	})
}
