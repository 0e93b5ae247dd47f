package waiting_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A late grant of a cancelled attempt blocks another waiter. The undo of that grant wakes the waiter at once.
func TestUndoOfLateGrantWakesWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, spies := f.SpiedClient()
		f.Take("job", "x", 0)
		answered, proceed := make(chan struct{}), make(chan struct{})
		spies[2].Set(func(s *fleet.Spy) { s.After = fleet.OnAcquire(func() { close(answered); <-proceed }) })
		ctx, cancel := context.WithCancel(t.Context())
		late := fleet.StartAcquire(ctx, t, a.RedLock("job"))
		<-answered // The third node has granted, but its answer has not arrived.
		cancel()
		<-late.Done
		waits := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		time.Sleep(20 * time.Millisecond)
		require.True(t, waits.Waits())
		close(proceed)
		require.LessOrEqual(t, f.Elapsed(func() { <-waits.Done }), 10*time.Millisecond)
		_ = waits.Has()
	})
}

// A grant arrives after its attempt has failed, and the next attempt of the same waiter is in flight. The late grant
// must not block that attempt.
func TestLateGrantDoesNotBlockItsOwnWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.Has().Release(t.Context()))
		fleet.Settle() // Wait until the inboxes are open.

		f.Take("other", "x", 0)
		proceed := make(chan struct{})
		spies[2].Set(func(s *fleet.Spy) { s.After = fleet.OnAcquire(func() { <-proceed }) })
		waits = fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.True(t, waits.Waits()) // The first node denied it, and the third has granted it.
		f.Free("other", "x", 0)
		time.Sleep(20 * time.Millisecond) // Wait until the next attempt is in flight.
		require.True(t, waits.Waits())
		spies[2].Set(func(s *fleet.Spy) { s.After = nil })
		close(proceed)
		require.LessOrEqual(t, f.Elapsed(func() { <-waits.Done }), 10*time.Millisecond)
		require.NoError(t, waits.Has().Release(t.Context()))
		f.RequireNoKeys()
	})
}

// One node denies a MultiLock, so its waiter undoes its grants on the other nodes. They reserve the lock for this
// waiter for a moment. Then a RedLock waiter, which needs only these nodes, acquires it.
func TestUndoneMultiLockWakesRedLockWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Take("job", "x", 2)
		all, ways := f.SpiedClient()
		_ = fleet.StartAcquire(t.Context(), t, all.MultiLock("job"))
		came, proceed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		hold := fleet.OnAcquire(func() { once.Do(func() { close(came); <-proceed }) })
		ways[2].Set(func(s *fleet.Spy) { s.Before = hold })
		<-came // The MultiLock has the other two nodes.
		most := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		close(proceed)
		require.LessOrEqual(t, f.Elapsed(func() { <-most.Done }), 60*time.Millisecond)
		require.NoError(t, most.Has().Release(t.Context()))
	})
}

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
		ways[2].Set(func(s *fleet.Spy) { s.Before = func([]wire.Op) { once.Do(func() { <-proceed }) } })
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
