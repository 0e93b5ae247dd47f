package kinds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func TestLeaseSurvivesLossOfAMinority(t *testing.T) {
	forEach(t, 5, func(t *testing.T, f *fleet.Fleet, k kind) {
		lease, rival := k.holder(f.Client(), none).has(t), k.rival(f.Client(), none)
		backedBy := func(nodes int) {
			t.Helper()
			have, want := lease.Backing()
			require.Equal(t, []int{nodes, 5}, []int{have, want})
		}
		f.Stop(0, 1)
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		backedBy(3)

		// The nodes come back without their memory. The next renewal heals the lock there, and the
		// first renewal after their recovery counts.
		f.Nodes[0].Flush()
		f.Nodes[1].Flush()
		f.Start(0, 1)
		time.Sleep(quorumlock.DefaultTTL)
		backedBy(3)
		require.Equal(t, 5*len(k.names(lease)), f.Keys())
		time.Sleep(quorumlock.DefaultTTL)
		backedBy(5)

		// So the lease survives the loss of any other two nodes.
		f.Stop(3, 4)
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		rival.isRefused(t)
		f.Start(3, 4)
		fleet.Settle()
		require.NoError(t, lease.Release(t.Context()))
		time.Sleep(time.Second)
		f.RequireNoKeys()
	})
}

// This is the known lost lock of Redlock: a holder has nodes 1 and 2, node 1 loses its memory, and a
// second client wins nodes 1 and 3. Here node 1 recovers first, so it grants nothing.
func TestRecoveringNodeGrantsNothing(t *testing.T) {
	forEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, k kind, lose func(int)) {
		client, wires := f.SpiedClient()
		wires[2].Severed.Store(true)
		lease, rival := k.holder(client, fixed).has(t), k.rival(f.Client(), none)
		lose(0)
		for lease.Err() == nil {
			rival.isRefused(t)
			time.Sleep(200 * time.Millisecond)
		}
		// The holder's lease has expired. Node 1 still recovers, as leases with longer TTLs may exist. Nodes 2 and 3 are
		// free and lost no memory.
		k.follows(t, rival.gets(t), lease)
	})
}

// The nodes lose their memory one after the other, with a full recovery between. The holder keeps its lock, and no rival
// gets it.
func TestHolderSurvivesMemoryLossesInTurn(t *testing.T) {
	forEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, k kind, lose func(int)) {
		lease, rival := k.holder(f.Client(), none).has(t), k.rival(f.Client(), none)
		for i := range f.Nodes {
			lose(i)
			for range int(2*fleet.RecoveryTime/time.Second) + 1 {
				time.Sleep(time.Second)
				require.NoError(t, lease.Err())
				rival.isRefused(t)
			}
		}
		fleet.Settle()
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
		k.follows(t, rival.has(t), lease)
	})
}

// After all nodes have lost their memory, the next client waits for the whole recovery. So a lease from
// before the loss stays exclusive until it ends, even if it is never renewed.
func TestNextHolderWaitsForTheRecovery(t *testing.T) {
	for _, n := range []int{1, 3} {
		forEachLoss(t, n, func(t *testing.T, f *fleet.Fleet, k kind, lose func(int)) {
			lease := k.holder(f.Client(), fixed).has(t)
			for i := range n {
				lose(i)
			}
			began := f.Clock.Now()
			k.holder(f.Client(), none).isRefused(t)
			next := k.rival(f.Client(), none).gets(t)
			waited := f.Clock.Now() - began
			require.GreaterOrEqual(t, waited, fleet.RecoveryTime)
			require.Less(t, waited, fleet.RecoveryTime+time.Second)
			require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
			k.follows(t, next, lease)
		})
	}
}
