package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// reserving is a node that leaves each free lock to an earlier waiter.
type reserving struct{ node.Node }

func (r reserving) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	for i := range ops {
		if ops[i].Kind == wire.Acquire {
			replies[i] = wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: ops[i].Names[0], TTL: 50 * time.Millisecond}}
			continue
		}
		r.Node.Do(ctx, ops[i:i+1], replies[i:i+1])
	}
}

func reserves(i int) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) { cfg.Nodes[i] = reserving{cfg.Nodes[i]} }
}

// A node that had left the lock to a waiter, when a majority granted it, is no sign of a forced release.
func TestReservedLockIsNotReleasedByForce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client(reserves(2)).RedLock("job"))
		f.Free("job", lease.Owner(), 0, 1) // by hand
		require.Equal(t, quorumlock.LossGone, fleet.LossOf(t, lease.Release(t.Context())).Cause)
	})
}

// It does not hide who has taken the lock.
func TestReservedLockThatIsTaken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client(reserves(2)).RedLock("job"))
		f.Free("job", lease.Owner(), 0, 1)
		next := fleet.MustAcquire(t, f.Client().RedLock("job"))
		lost := fleet.LossOf(t, lease.Release(t.Context()))
		require.Equal(t, quorumlock.LossTaken, lost.Cause)
		require.Equal(t, next.Owner(), lost.TakenBy)
		require.NoError(t, next.Release(t.Context()))
	})
}

// The error of an acquisition says of such a node that it leaves the lock to a waiter.
func TestErrorOfANodeThatReservesTheLock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(reserves(2))
		f.Introduce(client)
		f.Pause(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := client.RedLock("job").TryAcquire(ctx)
		f.Resume(0, 1)
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &short)
		for _, n := range short.Nodes {
			if n.Node == "n3" {
				require.ErrorIs(t, n.Err, quorumlock.ErrHeld)
				return
			}
		}
		t.Fatal("no error of n3")
	})
}
