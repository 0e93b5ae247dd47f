package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// deafOn returns a client that cannot listen to messages of one node, so its waiters cannot queue there.
func deafOn(f *fleet.Fleet, i int) *quorumlock.Client {
	return f.Client(func(cfg *quorumlock.Config) {
		cfg.Nodes[i] = &fleet.Wire{Node: cfg.Nodes[i], NodeName: cfg.Nodes[i].Name()}
	})
}

// Each of two waiters can queue only on a node where the other cannot, and both need both nodes. They do not leave these
// nodes to each other until the nodes' privilege for their first waiters ends, after 50 ms.
func TestWaitersThatCannotQueueOnEachOthersNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Stop(2)
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		one := fleet.StartAcquire(t.Context(), t, deafOn(f, 0).RedLock("job"))
		two := fleet.StartAcquire(t.Context(), t, deafOn(f, 1).RedLock("job"))
		time.Sleep(3 * time.Second)
		require.NoError(t, before.Release(t.Context()))
		require.Less(t, f.Elapsed(func() {
			var next *fleet.Acquisition
			for range 2 {
				select {
				case <-one.Done:
					next, one.Done = one, nil
				case <-two.Done:
					next, two.Done = two, nil
				}
				require.NoError(t, next.Err)
				require.NoError(t, next.Lease.Release(t.Context()))
			}
		}), 25*time.Millisecond)
	})
}
