package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestLeaseEndsBeforeItsKeysExpire(t *testing.T) {
	for what, fail := range map[string]func(*fleet.Fleet){
		"all nodes hang":     func(f *fleet.Fleet) { f.Pause(0, 1, 2, 3, 4) },
		"three nodes die":    func(f *fleet.Fleet) { f.Stop(0, 1, 2) },
		"all nodes die":      func(f *fleet.Fleet) { f.Stop(0, 1, 2, 3, 4) },
		"two die, one hangs": func(f *fleet.Fleet) { f.Stop(0, 1); f.Pause(2) },
	} {
		t.Run(what, func(t *testing.T) {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				lease, err := f.Client().RedLock("job").Acquire(t.Context())
				require.NoError(t, err)
				time.Sleep(time.Minute)
				fail(f)
				<-lease.Context().Done()
				require.Len(t, f.Nodes[0].Keys(), 1, "the key outlives the lease")
				cause := context.Cause(lease.Context())
				var lost *quorumlock.LostError
				require.ErrorAs(t, cause, &lost)
				require.ErrorIs(t, cause, quorumlock.ErrLost)
				require.GreaterOrEqual(t, len(lost.Nodes), 3, "every node that failed is named: %v", cause)
				require.Equal(t, lease.Owner(), lost.Owner)
				require.Equal(t, cause, lease.Err())
				require.Zero(t, lease.Remaining())

				// Nothing revives the lease.
				f.Start(0, 1, 2, 3, 4)
				f.Resume(0, 1, 2, 3, 4)
				time.Sleep(time.Minute)
				require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
				require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrLost)
				require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
				f.RequireNoKeys()
			})
		})
	}
}

func TestFixedLeaseEndsAfterItsTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fixed := f.Client().RedLock("job").With(quorumlock.LockOptions{Fixed: true, TTL: 5 * time.Second})
		var lease *quorumlock.Lease
		lived := f.Elapsed(func() {
			var err error
			lease, err = fixed.Acquire(t.Context())
			require.NoError(t, err)
			<-lease.Context().Done()
		})
		require.Equal(t, 5*time.Second-decision.Drift(5*time.Second), lived, "the TTL minus the drift")
		require.Equal(t, quorumlock.LossExpired, fleet.LossOf(t, lease.Err()).Cause)
		f.RequireNoKeys() // The client releases the lease when it ends. The keys need not expire.
	})
}

func TestExtendProlongsAFixedLease(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		fixed := f.Client().RedLock("job").With(quorumlock.LockOptions{Fixed: true})
		lease, err := fixed.Acquire(t.Context())
		require.NoError(t, err)
		for range 10 {
			time.Sleep(8 * time.Second)
			require.NoError(t, lease.Extend(t.Context()))
			require.Equal(t, quorumlock.DefaultTTL-decision.Drift(quorumlock.DefaultTTL), lease.Remaining())
		}

		// Without a quorum the lease stays valid until its last confirmed end, and no longer.
		f.Stop(0, 1, 2)
		time.Sleep(time.Second)
		before := lease.Remaining()
		err = lease.Extend(t.Context())
		var noQuorum *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &noQuorum)
		require.EqualValues(t, "extend", noQuorum.Op)
		require.Len(t, noQuorum.Nodes, 3)
		require.NoError(t, lease.Err())
		require.LessOrEqual(t, lease.Remaining(), before)
		time.Sleep(before)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	})
}

func TestReleaseIgnoresACancelledContext(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lease, err := f.Client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, lease.Release(cancelled))
		f.RequireNoKeys()
	})
}

func TestReleaseIsRetriedOnUnreachableNodes(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lease, err := f.Client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		f.Stop(0, 1, 2)
		err = lease.Release(t.Context())
		var noQuorum *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &noQuorum)
		require.EqualValues(t, "release", noQuorum.Op)
		require.Len(t, noQuorum.Nodes, 3)
		fleet.Settle() // The release failed as soon as three nodes had failed. The other two confirm later.
		require.Equal(t, 3, f.Keys())

		f.Start(0, 1, 2)
		time.Sleep(time.Second) // The longest pause between two probes is 500 ms.
		f.RequireNoKeys()
	})
}

func TestNilContextIsInvalid(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock := client.RedLock("job")
		var none context.Context
		_, err := lock.Acquire(none)
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = lock.TryAcquire(none)
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		require.ErrorIs(t, lock.Do(none, func(context.Context) error { return nil }), quorumlock.ErrInvalid)
		_, err = lock.Inspect(none)
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = lock.ForceRelease(none)
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		require.ErrorIs(t, client.Close(none), quorumlock.ErrInvalid)
		f.RequireNoKeys()

		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, lease.Extend(none), quorumlock.ErrInvalid)
		require.NoError(t, lease.Release(none), "a release takes nothing from its context")
		f.RequireNoKeys()
	})
}

func TestSuspendEndsLease(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		local := testkit.NewSkewed(f.Clock, 1)
		lease, err := f.Client(func(c *quorumlock.Config) { c.Clock = local }).RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		// The machine is suspended for longer than the TTL. When it resumes, the lease must have
		// ended before any node answers.
		local.Jump(quorumlock.DefaultTTL)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		<-lease.Context().Done()
		time.Sleep(time.Minute)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		f.RequireNoKeys()
	})
}

func TestCloseReportsUnconfirmedReleases(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		_ = fleet.MustAcquire(t, client.RedLock("job"))
		f.Pause(1)
		var closing error
		took := f.Elapsed(func() { closing = client.Close(t.Context()) })
		require.ErrorContains(t, closing, "n2 did not confirm 1 release")
		require.Less(t, took, 5*time.Second, "a hung node must not block Close")
		f.Resume(1)
	})
}

func TestDo(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job")
		mine := errors.New("mine")
		require.ErrorIs(t, lock.Do(t.Context(), func(context.Context) error {
			require.Equal(t, 5, func() int { fleet.Settle(); return f.Keys() }())
			return mine
		}), mine)
		require.Equal(t, mine, lock.Do(t.Context(), func(context.Context) error { return mine }), "the error is returned unchanged")
		f.RequireNoKeys()

		require.Panics(t, func() {
			_ = lock.Do(t.Context(), func(context.Context) error { panic("in the critical section") })
		})
		f.RequireNoKeys()

		// Both the function and the caller of Do learn of the loss.
		err := lock.Do(t.Context(), func(ctx context.Context) error {
			f.Stop(0, 1, 2)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), quorumlock.ErrLost)
			return context.Cause(ctx)
		})
		require.Equal(t, error(fleet.LossOf(t, err)), err, "the loss is not wrapped a second time")
		f.Start(0, 1, 2)

		// The caller also learns of the end of its own context.
		brief, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = lock.Do(brief, func(ctx context.Context) error {
			_, ok := ctx.Deadline()
			require.True(t, ok)
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, quorumlock.ErrLost)
		time.Sleep(time.Second)
		f.RequireNoKeys()
	})
}

func TestRenewalWithAllNodesDownFailsAtOnce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		for _, nd := range f.Nodes {
			nd.Stop()
		}
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum)
		fleet.Settle()
		began := f.Clock.Now()
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum) // Every sender refuses.
		require.Zero(t, f.Clock.Now()-began)
	})
}

// A call to Extend that failed is not repeated: a Fixed lease then ends when it would have anyway.
func TestFailedExtendOfAFixedLeaseIsNotRepeated(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(quorumlock.LockOptions{Fixed: true}))
		end := lease.ValidUntil()
		f.Stop(0, 1)
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum)
		f.Start(0, 1)
		time.Sleep(5 * time.Second)
		require.NoError(t, lease.Err())
		require.Equal(t, end, lease.ValidUntil())
	})
}

func TestExtendEndsWithTheLease(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		f.Pause(0)
		time.AfterFunc(10*time.Millisecond, func() { go func() { _ = lease.Release(context.Background()) }() })
		began := f.Clock.Now()
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrReleased)
		require.Equal(t, 10*time.Millisecond, f.Clock.Now()-began)
		require.Zero(t, lease.Remaining())
		have, _ := lease.Backing()
		require.Zero(t, have)
		f.Resume(0)
	})
}
