package kinds_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// oneRenewal is the time within which a lease of the default TTL renews itself.
const oneRenewal = quorumlock.DefaultTTL/3 + 100*time.Millisecond

// isTaken requires that a loss names the lease that took the lock.
func isTaken(t *testing.T, err error, next *quorumlock.Lease) {
	t.Helper()
	lost := fleet.LossOf(t, err)
	require.Equal(t, quorumlock.LossTaken, lost.Cause)
	require.Equal(t, next.Owner(), lost.TakenBy)
	require.ErrorContains(t, lost, quorumlock.DescribeOwner(next.Owner()))
}

// An operator deletes the keys of a lock by hand, and another client acquires the lock. The next renewal of the former
// holder finds that, or its release. A denial reports all readers as one owner, so readers prove nothing.
func TestLeaseTakenByAnotherOwner(t *testing.T) {
	for _, releases := range []bool{false, true} {
		forEach(t, 5, func(t *testing.T, f *fleet.Fleet, k kind) {
			former := k.holder(f.Client(), none).has(t)
			k.remove(f, former, 1, 2, 4)
			next := k.rival(f.Client(), none).has(t)
			switch {
			case k.rivalReads:
				require.ErrorIs(t, former.Release(t.Context()), quorumlock.ErrLost)
			case releases:
				isTaken(t, former.Release(t.Context()), next)
			default:
				time.Sleep(oneRenewal)
				isTaken(t, former.Err(), next)
			}
			require.NoError(t, next.Err())
			require.NoError(t, next.Release(t.Context()))
			f.RequireNoKeys()
		})
	}
}

// The keys of a lock are deleted by hand on a majority, and the holder releases it. Release returns the loss, and names
// these nodes. Keys that are missing on a minority of the nodes are no loss.
func TestReleaseReportsDeletedLock(t *testing.T) {
	forEach(t, 5, func(t *testing.T, f *fleet.Fleet, k kind) {
		holder := k.holder(f.Client(), none)
		for _, nodes := range [][]int{{0}, {0, 1}, {3, 4}} {
			lease := holder.has(t)
			k.remove(f, lease, nodes...)
			require.NoError(t, lease.Release(t.Context()))
			f.RequireNoKeys()
		}
		lease := holder.has(t)
		k.remove(f, lease, 0, 1, 2)
		lost := fleet.LossOf(t, lease.Release(t.Context()))
		require.Equal(t, quorumlock.LossGone, lost.Cause)
		require.Equal(t, lease.Names(), lost.Names)
		require.Equal(t, lease.Owner(), lost.Owner)
		require.Len(t, lost.Nodes, 3)
		for _, n := range lost.Nodes {
			var one *node.Error
			require.ErrorAs(t, n.Err, &one, "%v", n.Err)
			require.Contains(t, []string{"n1", "n2", "n3"}, n.Node)
			require.Equal(t, n.Node, one.Node)
			require.Equal(t, wire.Release.String(), one.Op)
		}
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrReleased)
		f.RequireNoKeys()
	})
}

// A holder with a subscription learns of a forced release at once. Without one it learns at its next renewal, and opens
// none; a Fixed lease then ends with its TTL. The next holder, which may come before that, is left alone.
func TestForcedReleaseTellsTheHolder(t *testing.T) {
	for _, o := range []quorumlock.LockOptions{none, fixed} {
		for _, subscribed := range []bool{false, true} {
			t.Run(fmt.Sprintf("subscribed %v, fixed %v", subscribed, o.Fixed), func(t *testing.T) {
				forEach(t, 3, func(t *testing.T, f *fleet.Fleet, k kind) {
					client, spies := f.SpiedClient()
					if subscribed {
						fleet.Subscribe(t, f, client)
					}
					before := f.Keys()
					lease := k.holder(client, o).has(t)
					time.Sleep(50 * time.Millisecond)
					began := f.Clock.Now()
					// Not on the third node: a subscribed holder may have released that one by then.
					k.run(f, lease, wire.Op{Kind: wire.ForceRelease}, 0, 1)
					next := k.rival(f.Client(), none).has(t)
					if subscribed {
						require.Error(t, lease.Context().Err(), "it knows without any time passing")
					} else {
						require.NoError(t, lease.Context().Err())
						<-lease.Context().Done()
						require.Zero(t, spies[0].Listens())
					}
					if subscribed || !o.Fixed {
						require.LessOrEqual(t, f.Clock.Now()-began, oneRenewal)
						require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, lease.Err()).Cause)
					}
					require.NoError(t, next.Err())
					require.NoError(t, next.Release(t.Context()))
					fleet.Settle()
					require.Equal(t, before, f.Keys(), "keys left behind")
				})
			})
		}
	}
}
