package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// deafOn returns a client that cannot listen to messages of one node, so its waiters cannot queue there. Its requests
// take this long.
func deafOn(f *fleet.Fleet, deaf int, latency time.Duration) *quorumlock.Client {
	return f.Client(func(cfg *quorumlock.Config) {
		for i, nd := range f.Nodes {
			spy := &fleet.Spy{Memory: nd, Before: func([]node.Op) { time.Sleep(latency) }}
			cfg.Nodes[i] = spy
			if i == deaf {
				cfg.Nodes[i] = &fleet.Wire{Node: spy, NodeName: nd.Name()}
			}
		}
	})
}

// Each of two waiters can queue only on a node where the other cannot, and both need both nodes. They do not leave these
// nodes to each other until the nodes' privilege for their first waiters ends, after 50 ms. Their requests arrive at
// different times. Otherwise each could get one node, and then they would back off.
func TestWaitersThatCannotQueueOnEachOthersNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Stop(2)
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		one := fleet.StartAcquire(t.Context(), t, deafOn(f, 0, 0).RedLock("job"))
		two := fleet.StartAcquire(t.Context(), t, deafOn(f, 1, 2*time.Millisecond).RedLock("job"))
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
