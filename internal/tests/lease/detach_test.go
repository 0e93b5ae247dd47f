package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func detach(l *quorumlock.Lease) error {
	_, err := l.Detach()
	return err
}

// A detached lease ends at once, and the nodes keep the lock until the lease would have ended.
func TestDetachLeavesTheLockToItsTTL(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			const ttl = 8 * time.Second
			lock := f.Client().RedLock("job").With(quorumlock.LockOptions{TTL: ttl, Fixed: fixed})
			lease := fleet.MustAcquire(t, lock)
			wait := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
			time.Sleep(time.Second)
			began, left, ctx := f.Clock.Now(), lease.Remaining(), lease.Context()

			require.NoError(t, detach(lease))
			require.Equal(t, began, f.Clock.Now(), "Detach waits for nothing")
			require.ErrorIs(t, context.Cause(ctx), quorumlock.ErrReleased)
			require.ErrorIs(t, lease.Err(), quorumlock.ErrReleased)
			require.ErrorIs(t, detach(lease), quorumlock.ErrReleased)
			require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrReleased, "a release does not free it")
			require.ErrorIs(t, fleet.MustBeRefused(t, lock), quorumlock.ErrHeld)

			time.Sleep(left - 1)
			require.True(t, wait.Waits(), "the nodes keep the lock as long as the lease would have lasted")
			<-wait.Done
			require.NoError(t, wait.Err)
			require.GreaterOrEqual(t, f.Clock.Now()-began, left)
			require.Less(t, f.Clock.Now()-began, decision.TTLFor(left)+2*time.Second, "nothing renews it")
			require.NoError(t, wait.Lease.Release(t.Context()))
		})
	}
}

// No local waiter gets a detached lease by a hand-over.
func TestDetachIsNoHandOver(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		first := fleet.MustAcquire(t, client.RedLock("job"))
		waits := []*fleet.Acquisition{fleet.StartAcquire(t.Context(), t, client.RedLock("job")), fleet.StartAcquire(t.Context(), t, client.RedLock("job"))}
		fleet.Settle()
		require.NoError(t, first.Release(t.Context()))
		<-waits[0].Done // Its block has a token for the next.
		second := waits[0].Lease
		left := second.Remaining()
		require.NoError(t, detach(second))
		time.Sleep(left - 1)
		require.True(t, waits[1].Waits())
		<-waits[1].Done
		require.NoError(t, waits[1].Lease.Release(t.Context()))
	})
}

// A lost lease cannot be detached, and a nested one is only released.
func TestDetachOfLostAndNestedLeases(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lost := fleet.MustAcquire(t, client.RedLock("lost").With(quorumlock.LockOptions{TTL: time.Second, Fixed: true}))
		time.Sleep(time.Second)
		require.ErrorIs(t, detach(lost), quorumlock.ErrLost)

		outer := fleet.MustAcquire(t, client.RedLock("job"))
		inner, err := client.RedLock("job").Acquire(outer.Context())
		require.NoError(t, err)
		require.NoError(t, detach(inner))
		require.NoError(t, outer.Err())
		require.NoError(t, outer.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// ExtendFor lets a Fixed lease last for another time than its TTL, and never shortens it.
func TestExtendFor(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job").With(quorumlock.LockOptions{TTL: time.Second, Fixed: true})
		lease := fleet.MustAcquire(t, lock)
		wait := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		time.Sleep(500 * time.Millisecond)
		began := f.Clock.Now()
		require.NoError(t, lease.ExtendFor(t.Context(), 9*time.Second))
		require.InDelta(t, 9*time.Second-decision.Drift(9*time.Second), lease.Remaining(), float64(time.Millisecond))
		before := lease.Remaining()
		require.NoError(t, lease.ExtendFor(t.Context(), 2*time.Second))
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, before, lease.Remaining(), "a shorter time changes nothing")

		time.Sleep(before - 1)
		require.NoError(t, lease.Err())
		require.True(t, wait.Waits(), "the nodes keep the lock for as long")
		<-wait.Done
		require.Less(t, f.Clock.Now()-began, 11*time.Second)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		require.ErrorIs(t, lease.ExtendFor(t.Context(), time.Second), quorumlock.ErrLost, "nothing revives it")
		require.NoError(t, wait.Lease.Release(t.Context()))
	})
}

func TestExtendForRejects(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		renewed := fleet.MustAcquire(t, client.RedLock("renewed"))
		require.EqualError(t, renewed.ExtendFor(t.Context(), time.Second), "quorumlock: ExtendFor needs a Fixed lock: other leases are renewed automatically")
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{Fixed: true}))
		for _, ttl := range []time.Duration{0, -1, time.Millisecond, quorumlock.DefaultTTL + time.Millisecond} {
			require.ErrorIs(t, lease.ExtendFor(t.Context(), ttl), quorumlock.ErrInvalid, ttl)
		}
		require.NoError(t, lease.ExtendFor(t.Context(), quorumlock.DefaultTTL))
		require.ErrorIs(t, lease.ExtendFor(nil, time.Second), quorumlock.ErrInvalid) //nolint:staticcheck // the test needs a nil context
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, renewed.Release(t.Context()))
	})
}
