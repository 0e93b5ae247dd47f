package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A lease that waives its MinHold frees the lock with its release, for waiters too.
func TestWaiveMinHold(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, other := f.Client(), f.Client().RedLock("job")
		lease := fleet.MustAcquire(t, client.RedLock("job").With(atLeast(5*time.Second)))
		wait := fleet.StartAcquire(t.Context(), t, other)
		time.Sleep(100 * time.Millisecond)
		lease.WaiveMinHold()
		require.NoError(t, lease.Err(), "the lease goes on")
		require.True(t, wait.Waits())
		took := f.Elapsed(func() {
			require.NoError(t, lease.Release(t.Context()))
			<-wait.Done
		})
		require.NoError(t, wait.Err)
		require.Less(t, took, 100*time.Millisecond, "the release wakes the waiter")
		require.NoError(t, wait.Lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A lease that was released keeps its MinHold. A later call changes nothing.
func TestWaiveMinHoldAfterRelease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(atLeast(5*time.Second)))
		require.NoError(t, lease.Release(t.Context()))
		lease.WaiveMinHold()
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrReleased)
		require.ErrorIs(t, fleet.MustBeRefused(t, f.Client().RedLock("job")), quorumlock.ErrHeld)
	})
}

// Only the outer lease decides about its MinHold.
func TestWaiveMinHoldOfANestedLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job").With(atLeast(5 * time.Second))
		outer := fleet.MustAcquire(t, lock)
		inner, err := lock.TryAcquire(outer.Context())
		require.NoError(t, err)
		inner.WaiveMinHold()
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, outer.Release(t.Context()))
		require.ErrorIs(t, fleet.MustBeRefused(t, f.Client().RedLock("job")), quorumlock.ErrHeld)
	})
}

func TestWaiveMinHoldOfAJointLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		joint, err := quorumlock.Join(c.RedLock("a").With(atLeast(5*time.Second)), c.RedLock("b").With(atLeast(time.Second))).TryAcquire(t.Context())
		require.NoError(t, err)
		joint.WaiveMinHold()
		require.NoError(t, joint.Release(t.Context()))
		fleet.Settle()
		f.RequireNoKeys()
	})
}
