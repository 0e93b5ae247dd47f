package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A JointLease may be released any number of times, also while the nodes keep its locks.
func TestMinHoldOfAJointLeaseThatIsReleasedTwice(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		a, b := c.RedLock("a").With(atLeast(5*time.Second)), c.RedLock("b")
		joint, err := quorumlock.Join(a, b).Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, joint.Release(t.Context()))
		for range 2 {
			require.Zero(t, f.Elapsed(func() { require.ErrorIs(t, joint.Release(t.Context()), quorumlock.ErrReleased) }))
		}
	})
}

// A forced release of a kept lock also frees it for waiters of the client that keeps it.
func TestForceReleaseOfAKeptLockServesWaitersOfItsClient(t *testing.T) {
	for how, ttl := range map[string]time.Duration{"TTL below MinHold": time.Second, "TTL above MinHold": quorumlock.DefaultTTL} {
		t.Run(how, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				client := f.Client()
				lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: ttl, MinHold: 9 * time.Second}))
				wait := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
				require.NoError(t, lease.Release(t.Context()))
				late := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
				time.Sleep(100 * time.Millisecond)
				_, err := f.Client().RedLock("job").ForceRelease(t.Context())
				require.NoError(t, err)
				time.Sleep(2 * time.Second)
				require.NoError(t, wait.Has().Release(t.Context()))
				require.NoError(t, late.Has().Release(t.Context()))
			})
		})
	}
}

// A renewal that began before the release says nothing about the rest of the MinHold. Its deadline of
// TTL/3 passes first; then the nodes confirm the renewal that keeps the lock.
func TestKeepIgnoresTheFailureOfAnEarlierRenewal(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(quorumlock.LockOptions{TTL: 300 * time.Millisecond, MinHold: 9 * time.Second}))
		f.Pause(0, 1)
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(context.Background()) }()
		time.Sleep(70 * time.Millisecond)
		go func() {
			time.Sleep(60 * time.Millisecond)
			f.Resume(0, 1)
		}()
		require.Equal(t, 60*time.Millisecond, f.Elapsed(func() { require.NoError(t, lease.Release(t.Context())) }))
		require.Error(t, <-extended)
	})
}
