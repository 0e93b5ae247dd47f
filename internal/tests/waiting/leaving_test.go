package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
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
