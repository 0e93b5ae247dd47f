package quorumlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func TestAcquireAndRelease(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 7} {
		fleet.InVirtualTime(t, n, func(t *testing.T, f *fleet.Fleet) {
			lease, err := f.Client().RedLock("job").Acquire(t.Context())
			require.NoError(t, err)
			fleet.Settle()
			require.Equal(t, n, f.Keys(), "every node has the lock")
			have, want := lease.Backing()
			require.Equal(t, []int{n, n}, []int{have, want})
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Context().Err())

			require.NoError(t, lease.Release(t.Context()))
			require.ErrorIs(t, lease.Err(), quorumlock.ErrReleased)
			require.ErrorIs(t, context.Cause(lease.Context()), quorumlock.ErrReleased)
			f.RequireNoKeys()
		})
	}
}

func TestHeldByAnother(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		holder, err := f.Client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)

		_, err = f.Client().RedLock("job").TryAcquire(t.Context())
		var held *quorumlock.HeldError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		require.NotErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.Equal(t, "job", held.Name)
		require.GreaterOrEqual(t, len(held.Nodes), 3, "a majority denied: %v", held.Nodes)
		require.Subset(t, []string{"n1", "n2", "n3", "n4", "n5"}, held.Nodes)
		require.Equal(t, holder.Owner(), held.Owner)
		require.Equal(t, quorumlock.DefaultTTL, held.TTL)
		require.ErrorContains(t, err, quorumlock.DescribeOwner(holder.Owner()))

		require.NoError(t, holder.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// The zero values of all types are invalid, and no method panics.
func TestZeroValues(t *testing.T) {
	ctx, options := t.Context(), quorumlock.LockOptions{TTL: time.Second}
	var (
		lock      quorumlock.Lock
		rw        quorumlock.RWLock
		semaphore quorumlock.Semaphore
		latch     quorumlock.Latch
		striped   quorumlock.Striped
		joined    quorumlock.Joined
		lease     quorumlock.Lease
		joint     quorumlock.JointLease
	)
	nothing := func(context.Context) error { t.Error("it runs"); return nil }
	acquired := func(_ any, err error) error { return err }
	for i, err := range []error{
		lock.Do(ctx, nothing), acquired(lock.Acquire(ctx)), acquired(lock.With(options).TryAcquire(ctx)),
		acquired(lock.Inspect(ctx)), acquired(lock.ForceRelease(ctx)), acquired(lock.ReleaseOwner(ctx, "a")),
		rw.Read().Do(ctx, nothing), rw.With(options).Write().Do(ctx, nothing), lease.Downgrade(ctx),
		semaphore.Do(ctx, 1, nothing), acquired(semaphore.With(options).TryAcquire(ctx, 1)), semaphore.SetPermits(ctx, 1),
		acquired(semaphore.Inspect(ctx)),
		latch.Set(ctx, 1), latch.With(quorumlock.LatchOptions{TTL: time.Hour}).Await(ctx), latch.CountDown(ctx, "a"), latch.Delete(ctx),
		acquired(latch.Count(ctx)), striped.Locks("a").Do(ctx, nothing), joined.Do(ctx, nothing), acquired(joined.TryAcquire(ctx)),
		quorumlock.Join(&lock, rw.Read(), semaphore.Joinable(1)).Do(ctx, nothing),
		lease.Err(), lease.Extend(ctx), lease.ExtendFor(ctx, time.Second), lease.Release(ctx), acquired(lease.Detach()), context.Cause(lease.Context()),
		joint.Err(), joint.Release(ctx), context.Cause(joint.Context()),
	} {
		require.ErrorIs(t, err, quorumlock.ErrInvalid, i)
	}
	lease.WaiveMinHold()
	have, want := lease.Backing()
	_, held := lock.Token(ctx)
	_, _, holds := semaphore.Slots(ctx)
	require.False(t, held || holds)
	require.Zero(t, lease.Token()+uint64(lease.Remaining())+uint64(have+want)) //nolint:gosec // zeros
	require.Empty(t, slices.Concat(lease.Names(), lock.Names()))
	require.Empty(t, lease.Owner()+semaphore.Name()+latch.Name())
	require.Empty(t, lease.Slots())
	require.Empty(t, joint.Leases())
	require.Zero(t, lease.ValidUntil())
}
