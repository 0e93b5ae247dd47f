package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// One process acquires, and another one releases: the next waiter gets the lock at once. Later holders are safe from a
// second call.
func TestReleaseOwnerInAnotherProcess(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		handler, worker := f.Client(), f.Client()
		lease := fleet.MustAcquire(t, handler.RedLock("job"))
		require.NoError(t, detach(lease))
		wait := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		require.True(t, wait.Waits())

		f.Stop(0)
		status, err := worker.RedLock("job").ReleaseOwner(t.Context(), lease.Owner())
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), status.Holder())
		<-wait.Done
		require.NoError(t, wait.Err)
		f.Start(0)
		for _, client := range []*quorumlock.Client{handler, worker} {
			status, err = client.RedLock("job").ReleaseOwner(t.Context(), lease.Owner())
			require.NoError(t, err)
			require.Empty(t, status.Holder(), "the next holder keeps the lock")
		}
		time.Sleep(time.Minute)
		require.NoError(t, wait.Lease.Err())
		require.NoError(t, wait.Lease.Release(t.Context()))
	})
}

// A lease that lives is told at its next renewal, and cannot put the lock back.
func TestReleaseOwnerEndsALivingLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		_, err := f.Client().RedLock("job").ReleaseOwner(t.Context(), lease.Owner())
		require.NoError(t, err)
		time.Sleep(oneRenewal)
		require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, lease.Err()).Cause)
		f.RequireNoKeys()
	})
}

func TestReleaseOwnerRejects(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock := client.RedLock("job")
		for _, owner := range []string{"", node.Readers} {
			_, err := lock.ReleaseOwner(t.Context(), owner)
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
		}
		_, err := client.RWLock("job").Read().ReleaseOwner(t.Context(), "x")
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = lock.ReleaseOwner(nil, "x") //nolint:staticcheck // the test needs a nil context
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		f.Stop(0, 1)
		_, err = lock.ReleaseOwner(t.Context(), "x")
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	})
}
