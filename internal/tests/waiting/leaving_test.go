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
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		_ = fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		require.Equal(t, 5, f.Waiters())
		require.NoError(t, c.Close(t.Context()))
		require.False(t, waits.Waits())
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
