package lists_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// asked makes a client that lists all nodes. Before a node is asked about lists, it runs the hook.
func asked(f *fleet.Fleet, hook func()) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		for i, n := range f.Nodes {
			cfg.Nodes[i] = &fleet.Spy{Node: n, Before: func(ops []wire.Op) {
				if slices.ContainsFunc(ops, func(op wire.Op) bool { return op.Kind == wire.Enlist }) {
					hook()
				}
			}}
		}
	}
}

// While the nodes have not said yet whether they refuse the list, a probe whose time is over must not say that all is well.
func TestReadyThatEndsBeforeTheListsAreCompared(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		fleet.AcquireAndRelease(t, f.Client(on(f, 1, 2, 3)).RedLock("job"))
		client := f.Client(asked(f, func() { time.Sleep(50 * time.Millisecond) }))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := client.Ready(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var lacking *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &lacking)
		require.Equal(t, 5, lacking.Pending)

		closing := make(chan error, 1)
		go func() { closing <- client.Ready(t.Context()) }()
		fleet.Settle()
		require.NoError(t, client.Close(t.Context()))
		require.ErrorIs(t, <-closing, quorumlock.ErrClosed)
	})
}

// Nothing is acquired from a node that has not noted the list, so it is not ready.
func TestReadyWhileTheListCannotBeNoted(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(asked(f, func() { time.Sleep(time.Hour) }))
		require.ErrorIs(t, client.Ready(t.Context()), node.ErrDown)
		require.ErrorIs(t, fleet.MustBeRefused(t, client.RedLock("job")), node.ErrDown)
	})
}
