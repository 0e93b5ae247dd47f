package waiting_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A denial of the first waiter is stale once its line has had the lock. A later waiter that gives
// up must not report it.
func TestWhatIsToldIsNotOutOfDate(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		old := fleet.MustAcquire(t, f.Client().RedLock("job"))
		job := f.Client().RedLock("job").With(quorumlock.LockOptions{NoHandover: true})
		first := fleet.StartAcquire(t.Context(), t, job)
		require.NoError(t, old.Release(t.Context()))
		_ = first.Has()
		ctx, cancel := context.WithCancel(t.Context())
		second := fleet.StartAcquire(ctx, t, job)
		f.Pause(0, 1, 2)
		go func() { _ = first.Lease.Release(t.Context()) }()
		fleet.Settle() // Wait until the second attempt is in flight.
		cancel()
		<-second.Done
		require.ErrorIs(t, second.Err, quorumlock.ErrNoQuorum)
		require.NotErrorIs(t, second.Err, quorumlock.ErrHeld, "the first had it after that")
		f.Resume(0, 1, 2)
	})
}
