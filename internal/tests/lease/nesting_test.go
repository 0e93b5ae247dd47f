package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestLastNestedLeaseReleasesTheLock(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job")
		outer, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()

		f.Stop(0, 1, 2, 3, 4) // The nested calls need no network.
		type key struct{}
		inner, err := lock.Acquire(context.WithValue(outer.Context(), key{}, "value"))
		require.NoError(t, err)
		require.Equal(t, outer.Owner(), inner.Owner())
		token := outer.Token()
		require.Equal(t, token, inner.Token())
		require.Equal(t, "value", inner.Context().Value(key{}))
		innermost, err := lock.TryAcquire(inner.Context())
		require.NoError(t, err)
		f.Start(0, 1, 2, 3, 4)

		// Nested leases may be released in any order. The last one releases the lock.
		require.NoError(t, outer.Release(t.Context()))
		require.ErrorIs(t, outer.Err(), quorumlock.ErrReleased)
		require.NoError(t, innermost.Release(t.Context()))
		require.ErrorIs(t, innermost.Release(t.Context()), quorumlock.ErrReleased)
		time.Sleep(time.Minute)
		require.NoError(t, inner.Err())
		require.NoError(t, inner.Context().Err())
		require.Equal(t, 5, f.Keys())

		require.NoError(t, inner.Release(t.Context()))
		require.ErrorIs(t, context.Cause(inner.Context()), quorumlock.ErrReleased)
		require.Equal(t, token, inner.Token(), "the token stays readable after the end")
		f.RequireNoKeys()
	})
}

func TestSecondAcquireWithoutLeaseContextIsDenied(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		_, err = client.RedLock("job").TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		_, err = f.Client().RedLock("job").TryAcquire(lease.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld, "the context of one client's lease means nothing to another client")
	})
}

func TestNestingOfNamesAndRules(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		all, err := client.MultiLock("a", "b").Acquire(t.Context())
		require.NoError(t, err)
		one, err := client.RedLock("c").Acquire(all.Context())
		require.NoError(t, err)

		for what, test := range map[string]struct {
			lock *quorumlock.Lock
			err  error
		}{
			"one name of two, under a weaker rule":   {client.RedLock("a"), nil},
			"one name of two":                        {client.MultiLock("b"), nil},
			"both names, in another order":           {client.MultiLock("b", "a"), nil},
			"a name of the outer lease":              {client.RedLock("b"), nil},
			"the inner lease":                        {client.RedLock("c"), nil},
			"the inner lease, under a stricter rule": {client.MultiLock("c"), quorumlock.ErrOverlap},
			"one name of two, and a new one":         {client.MultiLock("a", "d"), quorumlock.ErrOverlap},
			"a new name, and one of two":             {client.MultiLock("0", "b"), quorumlock.ErrOverlap},
			"names of two leases":                    {client.MultiLock("a", "c").With(quorumlock.LockOptions{Rule: quorum.Majority()}), quorumlock.ErrOverlap},
		} {
			lease, err := test.lock.TryAcquire(one.Context())
			if test.err != nil {
				require.ErrorIs(t, err, test.err, what)
				continue
			}
			require.NoError(t, err, what)
			require.NoError(t, lease.Release(t.Context()), what)
		}
		require.NoError(t, one.Release(t.Context()))
		require.NoError(t, all.Release(t.Context()))
		f.RequireNoKeys()
	})
}

func TestLostLeaseCannotBeNested(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job").With(quorumlock.LockOptions{Fixed: true})
		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		<-lease.Context().Done()

		_, err = lock.Acquire(lease.Context())
		require.ErrorIs(t, err, quorumlock.ErrLost, "the context of the lease has ended, with this cause")
		again, err := lock.Acquire(context.WithoutCancel(lease.Context()))
		require.NoError(t, err)
		require.NotEqual(t, lease.Owner(), again.Owner(), "this is a new lease, not a nested one")
		require.NoError(t, again.Release(t.Context()))
		f.RequireNoKeys()
	})
}

func TestLeaseContextKeepsValuesButNotCancellation(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 7), time.Second)
		defer cancel()
		lease, err := f.Client().RedLock("job").Acquire(ctx)
		require.NoError(t, err)
		require.Equal(t, 7, lease.Context().Value(key{}))
		time.Sleep(time.Minute)
		require.Error(t, ctx.Err())
		require.NoError(t, lease.Context().Err())
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestOverlapWithAnEndedLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		lease, err := c.RedLock("a").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		both, err := c.MultiLock("a", "b").TryAcquire(context.WithoutCancel(lease.Context()))
		require.NoError(t, err)
		require.NoError(t, both.Release(t.Context()))
	})
}
