package quorumlock_test

import (
	"context"
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

func TestAcquireWaitsForTheRelease(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first, err := f.Client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { _ = first.Release(t.Context()) })

		second := f.Client().RedLock("job")
		waited := f.Elapsed(func() {
			lease, err := second.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
		})
		require.GreaterOrEqual(t, waited, time.Minute, "while the first holder renewed")
		require.Less(t, waited, time.Minute+time.Second)
		f.RequireNoKeys()
	})
}
