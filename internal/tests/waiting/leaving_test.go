package waiting_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Closing a client takes its waiters out of the queues.
func TestCloseLeavesTheQueues(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c := f.Client()
		first, second := fleet.StartAcquire(t.Context(), t, c.RedLock("job")), fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		require.Equal(t, 5, f.Waiters())
		require.NoError(t, c.Close(t.Context()))
		for _, w := range []*fleet.Acquisition{first, second} {
			require.False(t, w.Waits())
			require.ErrorIs(t, w.Err, quorumlock.ErrClosed)
		}
		require.Zero(t, f.Waiters())
		require.NoError(t, before.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A minority of nodes loses its memory, and with it the queue entries. The majority still wakes the waiter.
func TestWaiterIsWokenAfterMinorityForgotIt(t *testing.T) {
	fleet.ForEachLoss(t, 5, func(t *testing.T, f *fleet.Fleet, lose func(i int)) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		time.Sleep(1500 * time.Millisecond)
		lose(1)
		lose(3)
		time.Sleep(time.Millisecond)
		require.LessOrEqual(t, untilTaken(f, before, waits), 10*time.Millisecond)
	})
}

// A renewal in flight during a hand-over extends the next lease.
func TestRenewalInFlightDuringHandoverCounts(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		job := f.Client(func(cfg *quorumlock.Config) { cfg.Handover.MaxTime = time.Minute }).RedLock("job")
		line := fleet.LineUp(t, job, job)
		first := line[0].Has()
		time.Sleep(2 * time.Second)
		f.Pause(0, 1, 2, 3, 4)
		extended := make(chan error, 1)
		go func() { extended <- first.Extend(t.Context()) }()
		fleet.Settle()
		require.NoError(t, first.Release(t.Context()))
		next := line[1].Has()
		require.ErrorIs(t, <-extended, quorumlock.ErrReleased)
		before := next.Remaining()
		time.Sleep(10 * time.Millisecond)
		f.Resume(0, 1, 2, 3, 4)
		fleet.Settle()
		require.Equal(t, before+2*time.Second-10*time.Millisecond, next.Remaining())
		require.NoError(t, next.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A waiter gives up while its attempt is under way. The attempt is undone when the grants arrive, and that must not put
// the waiter back into the queues.
func TestUndoOfAWaiterThatHasGoneQueuesNothing(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		waiter := fleet.StartAcquire(ctx, t, c.RedLock("job"))
		require.True(t, waiter.Waits())

		var mu sync.Mutex
		var undos []wire.Waiter
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) {
				s.Before = func(ops []wire.Op) {
					mu.Lock()
					defer mu.Unlock()
					for _, op := range ops {
						if op.Kind == wire.Release {
							undos = append(undos, op.Waiter)
						}
					}
				}
				s.After = fleet.OnAcquire(func() { time.Sleep(100 * time.Millisecond) }) // the reply is on its way
				// All nodes are free when the waiter is woken, so all of them grant.
				s.Message = func(wire.Message) bool { time.Sleep(time.Millisecond); return true }
			})
		}
		require.NoError(t, before.Release(t.Context())) // wakes the waiter
		time.Sleep(50 * time.Millisecond)
		require.Len(t, f.Nodes[0].Keys(), 1, "the nodes have granted")
		cancel()
		<-waiter.Done
		require.ErrorIs(t, waiter.Err, context.Canceled)
		time.Sleep(200 * time.Millisecond)
		f.RequireNoKeys()
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, undos, 3)
		for _, w := range undos {
			require.NotEmpty(t, w.ID)
			require.Zero(t, w.Keep, "it leaves the queue")
		}
	})
}

// A client closes an idle subscription while a new waiter asks. The queue entry of that attempt has no subscription,
// so the wake of the next release is lost. The waiter must notice this soon.
func TestSubscriptionClosesDuringAnAttempt(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		require.True(t, waits.Waits())
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.Has().Release(t.Context()))
		fleet.Settle()
		before = fleet.MustAcquire(t, f.Client().RedLock("job"))
		time.Sleep(10*time.Second - 5*time.Millisecond)
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.After = fleet.OnAcquire(func() { time.Sleep(20 * time.Millisecond) }) })
		}
		waits = fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		time.Sleep(15 * time.Millisecond) // The subscriptions have been closed by now.
		require.NoError(t, before.Release(t.Context()))
		took := f.Elapsed(func() { <-waits.Done })
		t.Log(took)
		require.LessOrEqual(t, took, 100*time.Millisecond)
	})
}

// The undo of an attempt arrives after the next attempt has acquired and released the lock. It must not leave a queue
// entry of the waiter, which has left.
func TestUndoBehindReleaseLeavesNoEntry(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, ways := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.Has().Release(t.Context()))
		fleet.Settle() // Wait until the inboxes are open.

		f.Take("job", "x", 0, 1)
		proceed := make(chan struct{})
		var once sync.Once
		ways[2].Set(func(s *fleet.Spy) { s.Before = func([]wire.Op) { once.Do(func() { <-proceed }) } })
		_, _ = c.RedLock("third").TryAcquire(t.Context())
		waits = fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		require.True(t, waits.Waits())
		f.Free("job", "x", 0, 1)
		lease := waits.Has()
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		close(proceed)
		fleet.Settle()
		for _, n := range f.Nodes {
			require.NotContains(t, n.Keys(), "job")
		}
		f.Take("job", "x", 0, 1, 2)
		require.Zero(t, f.Waiters())
	})
}
