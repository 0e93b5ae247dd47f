package recovery_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// Ready says what an attempt at a lock finds, and takes nothing.
func TestReadyAgreesWithAnAttempt(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		agree := func(reasons ...error) {
			t.Helper()
			err := client.Ready(t.Context())
			require.Zero(t, f.Keys())
			lease, refused := client.RedLock("job").TryAcquire(t.Context())
			if len(reasons) == 0 {
				require.NoError(t, err)
				require.NoError(t, refused)
				require.NoError(t, lease.Release(t.Context()))
				fleet.Settle() // all nodes have the release
				return
			}
			var lacking *quorumlock.NoQuorumError
			require.ErrorAs(t, err, &lacking)
			require.Equal(t, quorumlock.Operation("ready"), lacking.Op)
			require.Len(t, lacking.Nodes, len(reasons))
			require.Equal(t, 3-len(reasons), lacking.Agreed)
			for i, n := range lacking.Nodes {
				require.ErrorIs(t, n.Err, reasons[i])
				require.ErrorContains(t, err, n.Node)
			}
			require.ErrorIs(t, refused, quorumlock.ErrNoQuorum)
			require.ErrorIs(t, refused, reasons[0])
		}
		agree()
		f.Stop(0)
		agree()
		f.Nodes[1].Flush()
		agree(node.ErrUnreachable, node.ErrRecovering)
		time.Sleep(f.Limits.Recovery())
		agree() // the first call had the recovery begin
		f.Pause(1)
		took := f.Elapsed(func() { require.ErrorIs(t, client.Ready(t.Context()), node.ErrTimeout) })
		require.LessOrEqual(t, took, client.Config().NodeTimeoutMax)
		f.Resume(1)
	})
}

// A lease outlives what Ready reports: the nodes that recover renew it.
func TestReadyFailsBesideALease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		f.Nodes[0].Flush()
		f.Nodes[1].Flush()
		time.Sleep(quorumlock.DefaultTTL / 3)
		require.ErrorIs(t, client.Ready(t.Context()), node.ErrRecovering)
		require.NoError(t, lease.Err())
		time.Sleep(f.Limits.Recovery())
		require.NoError(t, client.Ready(t.Context()))
	})
}

func TestReadyThatEndsEarly(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		f.Pause(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := client.Ready(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var lacking *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &lacking)
		require.Equal(t, 2, lacking.Pending)
		require.ErrorIs(t, client.Ready(ctx), context.DeadlineExceeded)

		closing := make(chan error, 1)
		go func() { closing <- client.Ready(t.Context()) }()
		fleet.Settle()
		require.NoError(t, client.Close(t.Context()))
		require.ErrorIs(t, <-closing, quorumlock.ErrClosed)
		require.Equal(t, quorumlock.ErrClosed, client.Ready(t.Context()))
		require.ErrorIs(t, client.Ready(nil), quorumlock.ErrInvalid) //nolint:staticcheck // it is what the test is about
		f.Resume(0, 1)
	})
}
