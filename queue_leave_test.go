package quorumlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// A client that is closed takes its waiters out of the queues.
func TestACloseLeavesTheQueues(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		c := f.client()
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		_ = acquiring(t.Context(), t, c.RedLock("job"))
		require.Equal(t, 5, f.waiters())
		require.NoError(t, c.Close(t.Context()))
		require.False(t, waits.waits())
		require.Zero(t, f.waiters())
		require.NoError(t, before.Release(t.Context()))
		f.noKeys()
	})
}

// What a minority of nodes forgets of who waits, the others know.
func TestNodesForgetWhoWaits(t *testing.T) {
	inVirtualTimeByEachLoss(t, 5, func(t *testing.T, f *fleet, lose func(i int)) {
		before := held(t, f.client().RedLock("job"))
		waits := acquiring(t.Context(), t, f.client().RedLock("job"))
		time.Sleep(1500 * time.Millisecond)
		lose(1)
		lose(3)
		time.Sleep(time.Millisecond)
		require.LessOrEqual(t, f.untilTaken(before, waits), 10*time.Millisecond)
	})
}

// A renewal that is under way when its lease is handed over is one for the next.
func TestARenewalDuringAHandover(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		job := f.client(func(cfg *quorumlock.Config) { cfg.Handover.MaxTime = time.Minute }).RedLock("job")
		line := lined(t, job, job)
		first := line[0].has()
		time.Sleep(2 * time.Second)
		f.pause(0, 1, 2, 3, 4)
		extended := make(chan error, 1)
		go func() { extended <- first.Extend(t.Context()) }()
		settled()
		require.NoError(t, first.Release(t.Context()))
		next := line[1].has()
		require.ErrorIs(t, <-extended, quorumlock.ErrReleased)
		before := next.Remaining()
		time.Sleep(10 * time.Millisecond)
		f.resume(0, 1, 2, 3, 4)
		settled()
		require.Equal(t, before+2*time.Second-10*time.Millisecond, next.Remaining())
		require.NoError(t, next.Release(t.Context()))
		f.noKeys()
	})
}
