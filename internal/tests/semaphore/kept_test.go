package semaphore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// forceOff takes a permit from its owner on all nodes, as an operator does.
func forceOff(t *testing.T, f *fleet.Fleet, semaphore string, slot int) {
	t.Helper()
	op := node.Op{
		Kind: node.ForceRelease, Names: []string{node.SlotName(node.PoolName(semaphore), slot)}, TTL: quorumlock.DefaultTTL,
		Limits: quorumlock.Config{}.Limits(),
	}
	for _, n := range f.Nodes {
		replies := make([]node.Reply, 1)
		n.Do(t.Context(), []node.Op{op}, replies)
		require.NoError(t, replies[0].Err)
		require.Len(t, replies[0].Holders, 1)
	}
}

// A client whose permit stays taken for a MinHold learns that the permit was released by force, also if it never
// asked for another one before.
func TestForceReleaseOfAKeptPermit(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client().Semaphore("jobs", 2), f.Client().Semaphore("jobs", 2)
		lease := permits(t, a.With(quorumlock.LockOptions{MinHold: 9 * time.Second}), 1)
		slot := lease.Slots()[0]
		other := permits(t, b, 1)
		require.NoError(t, lease.Release(t.Context()))
		for range 3 {
			_, err := a.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, quorumlock.ErrHeld, "the nodes keep the permit")
			fleet.Settle()
		}
		forceOff(t, f, "jobs", slot)
		lease, err := a.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, []int{slot}, lease.Slots())

		// The end of the MinHold changes nothing for the new holder.
		time.Sleep(10 * time.Second)
		require.NoError(t, lease.Err())
		_, err = a.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A waiter of that client gets the permit at once.
func TestForceReleaseOfAKeptPermitServesWaitersOfItsClient(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client().Semaphore("jobs", 2), f.Client().Semaphore("jobs", 2)
		lease := permits(t, a.With(quorumlock.LockOptions{MinHold: 9 * time.Second}), 1)
		slot := lease.Slots()[0]
		other := permits(t, b, 1)
		require.NoError(t, lease.Release(t.Context()))
		var got *quorumlock.Lease
		done := make(chan error, 1)
		go func() {
			var err error
			got, err = a.Acquire(t.Context(), 1)
			done <- err
		}()
		time.Sleep(500 * time.Millisecond)
		forceOff(t, f, "jobs", slot)
		took := f.Elapsed(func() { require.NoError(t, <-done) })
		require.Equal(t, []int{slot}, got.Slots())
		require.Less(t, took, 2*time.Second)
		require.NoError(t, other.Release(t.Context()))
		require.NoError(t, got.Release(t.Context()))
	})
}
