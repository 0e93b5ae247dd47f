package waiting_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// Two attempts of one waiter reach a node in one batch. The node grants the first attempt, so it denies the
// second. Then the first attempt is undone there, and the waiter must notice that the node is free again.
func TestTwoAttemptsOfOneWaiterInOneBatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, ways := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.Has().Release(t.Context()))
		fleet.Settle() // Wait until the inboxes are open.

		f.Take("other", "x", 0)
		proceed := make(chan struct{})
		var once sync.Once
		ways[2].Set(func(s *fleet.Spy) { s.Before = func([]node.Op) { once.Do(func() { <-proceed }) } })
		_, _ = c.RedLock("third").TryAcquire(t.Context()) // Later operations for the third node wait behind this one.
		waits = fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.True(t, waits.Waits()) // The first node denied it, so it was not sent to the third.
		f.Free("other", "x", 0)
		time.Sleep(20 * time.Millisecond) // Wait until the next attempt is in flight.
		require.True(t, waits.Waits())
		close(proceed)
		took := f.Elapsed(func() { <-waits.Done })
		t.Log(took)
		require.LessOrEqual(t, took, 60*time.Millisecond)
		require.NoError(t, waits.Has().Release(t.Context()))
	})
}
