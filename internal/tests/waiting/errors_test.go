package waiting_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// The first waiter of a local queue is denied, and later acquires the lock. A second waiter that gives up after that
// must not report the stale denial.
func TestErrorOfWaiterIsNotStale(t *testing.T) {
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
		require.NotErrorIs(t, second.Err, quorumlock.ErrHeld, "the denial is older than the lease of the first waiter")
		f.Resume(0, 1, 2)
	})
}
