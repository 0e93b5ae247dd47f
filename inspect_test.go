package quorumlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

func TestInspect(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock := client.RedLock("job")
		status, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Empty(t, status.Holder())
		require.Empty(t, status.Owners())
		require.Len(t, status.Nodes, 5)
		require.Equal(t, "n3", status.Nodes[2].Node)

		lease := fleet.MustAcquire(t, lock)
		f.Stop(0)
		f.Pause(1)
		status, err = lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), status.Holder())
		require.Equal(t, []string{lease.Owner()}, status.Owners())
		require.ErrorIs(t, status.Nodes[0].Err, node.ErrUnreachable)
		require.ErrorIs(t, status.Nodes[1].Err, node.ErrTimeout)
		require.InDelta(t, quorumlock.DefaultTTL, status.Nodes[2].Holders[0].TTL, float64(time.Second))

		f.Stop(2, 3)
		status, err = lock.Inspect(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.Len(t, status.Nodes, 5, "the answers of the other nodes are returned all the same")
		require.Len(t, status.Nodes[4].Holders, 1)
		f.Resume(1)
	})
}

func TestInspectWithAnImpatientContext(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Pause(0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		status, err := f.Client().RedLock("job").Inspect(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Error(t, status.Nodes[0].Err)
		require.NoError(t, status.Nodes[1].Err)
		f.Resume(0)
	})
}

func TestHolderNeedsAllNamesOnAQuorum(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().MultiLock("a", "b")
		f.Take("a", "x", 0, 1, 2)
		f.Take("b", "x", 0, 1)
		status, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Empty(t, status.Holder())
		f.Take("b", "x", 2)
		status, err = lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, "x", status.Holder())
	})
}

func TestInspectAsksANodeThatHasJustFailed(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job")
		f.Stop(0)
		_, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		f.Start(0)
		// No time has passed, so an acquisition would not ask the node again yet.
		status, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		require.NoError(t, status.Nodes[0].Err)
	})
}
