package quorumlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

func TestInspect(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		client := f.client()
		lock := client.RedLock("job")
		status, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Empty(t, status.Holder())
		require.Empty(t, status.Owners())
		require.Len(t, status.Nodes, 5)
		require.Equal(t, "n3", status.Nodes[2].Node)

		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		f.stop(0)
		f.pause(1)
		status, err = lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), status.Holder())
		require.Equal(t, []string{lease.Owner()}, status.Owners())
		require.ErrorIs(t, status.Nodes[0].Err, node.ErrUnreachable)
		require.ErrorIs(t, status.Nodes[1].Err, node.ErrTimeout)
		require.InDelta(t, quorumlock.DefaultTTL, status.Nodes[2].Holders[0].TTL, float64(time.Second))

		f.stop(2, 3)
		status, err = lock.Inspect(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.Len(t, status.Nodes, 5, "what is known is told all the same")
		require.Len(t, status.Nodes[4].Holders, 1)
		f.resume(1)
	})
}

func TestInspectWithAnImpatientContext(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		f.pause(0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		status, err := f.client().RedLock("job").Inspect(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Error(t, status.Nodes[0].Err)
		require.NoError(t, status.Nodes[1].Err)
		f.resume(0)
	})
}

func TestHolderNeedsAllNamesOnAQuorum(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		lock := f.client().MultiLock("a", "b")
		f.take("a", "x", 0, 1, 2)
		f.take("b", "x", 0, 1)
		status, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Empty(t, status.Holder())
		f.take("b", "x", 2)
		status, err = lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, "x", status.Holder())
	})
}

func TestForceReleaseAgainstALiveHolder(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		lease, err := f.client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		// Two nodes have forgotten the lease: they have to refuse it all the same.
		f.nodes[0].Flush()
		f.nodes[1].Flush()
		removed, err := f.client().RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{lease.Owner()}, removed.Owners())
		require.Zero(t, f.keys())

		<-lease.Context().Done()
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		require.ErrorContains(t, lease.Err(), "by force")
		time.Sleep(time.Minute)
		require.Zero(t, f.keys(), "no renewal brings it back")

		next, err := f.client().RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestForceReleaseOfAFreeLockIsHarmless(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		removed, err := f.client().RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		require.Empty(t, removed.Owners())
	})
}

func TestInspectAsksANodeThatHasJustFailed(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		lock := f.client().RedLock("job")
		f.stop(0)
		_, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		f.start(0)
		// No time has passed: to acquire, the node would not be asked again yet.
		status, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		require.NoError(t, status.Nodes[0].Err)
	})
}
