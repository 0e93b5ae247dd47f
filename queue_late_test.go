package quorumlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// A late grant that is undone lets in who was kept out by it, at once.
func TestALateGrantIsUndoneForThoseWhoWait(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		a, spies := f.spied()
		f.take("job", "x", 0)
		answered, proceed := make(chan struct{}), make(chan struct{})
		spies[2].set(func(s *spy) { s.after = func() { close(answered); <-proceed } })
		ctx, cancel := context.WithCancel(t.Context())
		late := acquiring(ctx, t, a.RedLock("job"))
		<-answered // the third has granted, and nobody knows
		cancel()
		<-late.done
		waits := acquiring(t.Context(), t, f.client().RedLock("job"))
		time.Sleep(20 * time.Millisecond)
		require.True(t, waits.waits())
		close(proceed)
		require.LessOrEqual(t, f.elapsed(func() { <-waits.done }), 10*time.Millisecond)
		_ = waits.has()
	})
}

// A grant that comes when its round was lost already does not stand in the way of the next
// attempt of the same waiter, which is sent to the node by then.
func TestALateGrantDoesNotStandInTheWayOfItsOwnWaiter(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, spies := f.spied()
		before := held(t, f.client().RedLock("job"))
		waits := acquiring(t.Context(), t, c.MultiLock("job", "other"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.has().Release(t.Context()))
		settled() // the inboxes are there

		f.take("other", "x", 0)
		proceed := make(chan struct{})
		spies[2].set(func(s *spy) { s.after = func() { <-proceed } })
		waits = acquiring(t.Context(), t, c.MultiLock("job", "other"))
		require.True(t, waits.waits()) // denied by the first node; the third has granted
		f.free("other", "x", 0)
		time.Sleep(20 * time.Millisecond) // the next attempt is under way
		require.True(t, waits.waits())
		spies[2].set(func(s *spy) { s.after = nil })
		close(proceed)
		require.LessOrEqual(t, f.elapsed(func() { <-waits.done }), 10*time.Millisecond)
		require.NoError(t, waits.has().Release(t.Context()))
		f.noKeys()
	})
}

// What somebody gives back, as one node denies, is had by who waits for the others, once the
// moment has passed for which it is left to who gave it back.
func TestWhatIsGivenBackIsTold(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		f.take("job", "x", 2)
		all, ways := f.hookedClient()
		_ = acquiring(t.Context(), t, all.MultiLock("job"))
		came, proceed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ways[2].set(func(ops []node.Op) {
			if ops[0].Kind == node.Acquire {
				once.Do(func() { close(came); <-proceed })
			}
		}, nil)
		<-came // it has the other two
		most := acquiring(t.Context(), t, f.client().RedLock("job"))
		close(proceed)
		require.LessOrEqual(t, f.elapsed(func() { <-most.done }), 60*time.Millisecond)
		require.NoError(t, most.has().Release(t.Context()))
	})
}
