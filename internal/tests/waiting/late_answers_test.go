package waiting_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// A late grant that is undone lets in who was kept out by it, at once.
func TestALateGrantIsUndoneForThoseWhoWait(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, spies := f.SpiedClient()
		f.Take("job", "x", 0)
		answered, proceed := make(chan struct{}), make(chan struct{})
		spies[2].Set(func(s *fleet.Spy) { s.After = func() { close(answered); <-proceed } })
		ctx, cancel := context.WithCancel(t.Context())
		late := fleet.StartAcquire(ctx, t, a.RedLock("job"))
		<-answered // the third has granted, and nobody knows
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

// A grant that comes when its round was lost already does not stand in the way of the next
// attempt of the same waiter, which is sent to the node by then.
func TestALateGrantDoesNotStandInTheWayOfItsOwnWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.Has().Release(t.Context()))
		fleet.Settle() // the inboxes are there

		f.Take("other", "x", 0)
		proceed := make(chan struct{})
		spies[2].Set(func(s *fleet.Spy) { s.After = func() { <-proceed } })
		waits = fleet.StartAcquire(t.Context(), t, c.MultiLock("job", "other"))
		require.True(t, waits.Waits()) // denied by the first node; the third has granted
		f.Free("other", "x", 0)
		time.Sleep(20 * time.Millisecond) // the next attempt is under way
		require.True(t, waits.Waits())
		spies[2].Set(func(s *fleet.Spy) { s.After = nil })
		close(proceed)
		require.LessOrEqual(t, f.Elapsed(func() { <-waits.Done }), 10*time.Millisecond)
		require.NoError(t, waits.Has().Release(t.Context()))
		f.RequireNoKeys()
	})
}

// What somebody gives back, as one node denies, is had by who waits for the others, once the
// moment has passed for which it is left to who gave it back.
func TestWhatIsGivenBackIsTold(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Take("job", "x", 2)
		all, ways := f.HookedClient()
		_ = fleet.StartAcquire(t.Context(), t, all.MultiLock("job"))
		came, proceed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ways[2].Set(func(ops []node.Op) {
			if ops[0].Kind == node.Acquire {
				once.Do(func() { close(came); <-proceed })
			}
		}, nil)
		<-came // it has the other two
		most := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		close(proceed)
		require.LessOrEqual(t, f.Elapsed(func() { <-most.Done }), 60*time.Millisecond)
		require.NoError(t, most.Has().Release(t.Context()))
	})
}
