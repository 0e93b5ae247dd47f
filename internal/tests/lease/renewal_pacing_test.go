package lease_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// laden is a node that takes some time for each operation, like a server that shares its processor.
type laden struct {
	*node.Memory
	each atomic.Int64
	// ops and exchanges count the operations and exchanges of the node.
	ops, exchanges atomic.Int64
}

func (s *laden) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	s.ops.Add(int64(len(ops)))
	s.exchanges.Add(1)
	time.Sleep(time.Duration(s.each.Load()) * time.Duration(len(ops)))
	s.Memory.Do(ctx, ops, replies)
}

// ladenClient makes a client of nodes that take the given time for each operation.
func ladenClient(f *fleet.Fleet, each time.Duration, changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*laden) {
	var nodes []*laden
	c := f.Client(func(cfg *quorumlock.Config) {
		cfg.Nodes = nil
		for _, m := range f.Nodes {
			nd := &laden{Memory: m}
			nd.each.Store(int64(each))
			nodes = append(nodes, nd)
			cfg.Nodes = append(cfg.Nodes, nd)
		}
		for _, change := range changes {
			change(cfg)
		}
	})
	return c, nodes
}

// take acquires n locks, some at a time.
func take(t *testing.T, n int, lock func(i int) *quorumlock.Lock) []*quorumlock.Lease {
	t.Helper()
	const takers = 128
	leases := make([]*quorumlock.Lease, n)
	errs := make([]error, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range takers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				leases[i], errs[i] = lock(i).Acquire(context.Background())
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return leases
}

// lostOf counts the lost leases, and returns the least remaining validity of the other leases.
func lostOf(leases []*quorumlock.Lease) (lost int, least time.Duration) {
	least = math.MaxInt64
	for _, l := range leases {
		if l.Err() != nil {
			lost++
		} else {
			least = min(least, l.Remaining())
		}
	}
	return lost, least
}

// pacedTTL is the TTL of most leases here. Each is renewed every third of it, if the nodes have
// room.
const pacedTTL = 10 * time.Second

// A client holds more leases than its nodes can renew in a third of a TTL. It renews as fast as
// they can, the most urgent lease first. It loses nothing if they can renew all leases within a
// TTL.
func TestRenewalsAreNoFasterThanNodesTakeThem(t *testing.T) {
	const (
		held    = 20_000
		each    = 350 * time.Microsecond // A round of all leases takes 7 s.
		lasting = 40 * time.Second
	)
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var failed atomic.Int64
		c, nodes := ladenClient(f, each, func(cfg *quorumlock.Config) {
			cfg.Hooks.RenewalFailed = func(quorumlock.RenewalFailedEvent) { failed.Add(1) }
		})
		leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		short := quorumlock.LockOptions{TTL: pacedTTL / 5} // These leases cannot wait as long as the others.
		leases = append(leases, take(t, 20, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("s", i)).With(short) })...)
		for range int(lasting / time.Second) {
			time.Sleep(time.Second)
			lost, least := lostOf(leases)
			require.Zero(t, lost)
			require.Greater(t, least, pacedTTL/20)
		}
		require.Zero(t, failed.Load(), "nodes that answer, and are not asked for too much, do not fail")
		for _, nd := range nodes {
			require.Greater(t, nd.ops.Load(), 100*nd.exchanges.Load(), "what leaves together is one call")
		}
	})
}

// The nodes cannot renew all leases. The client keeps as many as they can renew, and renews none of
// them too late.
func TestTooManyLeasesAreNotAllLost(t *testing.T) {
	const (
		held    = 12_000
		each    = 1200 * time.Microsecond // A round of all leases takes 14 s, and a TTL is enough for 8,300.
		lasting = 40 * time.Second
	)
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := ladenClient(f, each)
		leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		time.Sleep(lasting)
		lost, _ := lostOf(leases)
		require.Greater(t, held-lost, 6500)
		time.Sleep(lasting)
		again, _ := lostOf(leases)
		require.Equal(t, lost, again, "the others can be kept")
	})
}

// A lease that waits for room ends when its validity ends, and not when its turn comes.
func TestWhoWaitsForRoomEndsInTime(t *testing.T) {
	const held = 5000
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, nodes := ladenClient(f, 10*time.Microsecond)
		leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		for _, nd := range nodes {
			nd.each.Store(int64(1900 * time.Microsecond)) // A full batch is just in time.
		}
		for range int(pacedTTL / time.Second * 10) {
			time.Sleep(100 * time.Millisecond)
			fleet.Settle()
			for _, l := range leases {
				require.Equal(t, l.Err() != nil, l.Context().Err() != nil)
			}
		}
		lost, _ := lostOf(leases)
		require.Positive(t, lost, "there was not room for all")
	})
}

// A node that hangs or is slow does not hold up renewals that can do without it. Other leases may
// still wait for it.
func TestRenewalsDoNotWaitForABadNode(t *testing.T) {
	const held, each = 4000, 100 * time.Microsecond
	for bad, be := range map[string]func(*laden){
		"hung": func(nd *laden) { nd.Pause() },
		"slow": func(nd *laden) { nd.each.Store(int64(1900 * time.Microsecond)) }, // a full batch is just in time
	} {
		t.Run(bad, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				c, nodes := ladenClient(f, each)
				leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
				_ = take(t, held/4, func(i int) *quorumlock.Lock { return c.MultiLock(fmt.Sprint("m", i)) }) // they need it
				be(nodes[0])
				for range 30 {
					time.Sleep(time.Second)
					lost, least := lostOf(leases)
					require.Zero(t, lost)
					require.Greater(t, least, pacedTTL*6/10)
				}
				nodes[0].Resume()
			})
		})
	}
}

// Renewals get as much of the nodes' capacity as acquisitions, however many callers there are.
func TestCallersDoNotKeepRenewalsWaiting(t *testing.T) {
	const held, callers, each = 2000, 3000, 350 * time.Microsecond
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := ladenClient(f, each)
		leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					if lease, err := c.RedLock(fmt.Sprint("c", i)).Acquire(ctx); err == nil {
						_ = lease.Release(ctx)
					}
				}
			})
		}
		for range 30 {
			time.Sleep(time.Second)
			lost, least := lostOf(leases)
			require.Zero(t, lost)
			require.Greater(t, least, pacedTTL/3)
		}
		cancel()
		all.Wait()
	})
}

// Some leases need all nodes, among many that can do without one. They are renewed as long as the
// nodes can renew all leases.
func TestWhoNeedsMoreNodesIsNotCrowdedOut(t *testing.T) {
	const held, each = 12_000, 500 * time.Microsecond // A round of all leases takes 6 s.
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := ladenClient(f, each)
		all := take(t, 200, func(i int) *quorumlock.Lock { return c.MultiLock(fmt.Sprint("m", i)) })
		most := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		for range 30 {
			time.Sleep(time.Second)
			lost, _ := lostOf(all)
			require.Zero(t, lost, "of those who need all nodes")
			lost, _ = lostOf(most)
			require.Zero(t, lost, "of those who do not")
		}
	})
}

// The client is suspended during an exchange. The length of this exchange says nothing about the
// later pace of the nodes. The client must not drop a lease because of it.
func TestASuspendIsNotThePaceOfTheNodes(t *testing.T) {
	const held, each = 12_000, 40 * time.Microsecond // A round of all leases takes half a second.
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		local := clock.NewSkewed(f.Clock, 1)
		c, nodes := ladenClient(f, each, func(cfg *quorumlock.Config) { cfg.Clock = local })
		leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		time.Sleep(pacedTTL)
		for _, nd := range nodes {
			nd.each.Store(int64(10 * time.Millisecond))
		}
		go func() { _, _ = c.RedLock("other").TryAcquire(context.Background()) }()
		time.Sleep(time.Millisecond) // The acquisition is in flight.
		for _, nd := range nodes {
			nd.each.Store(int64(each))
		}
		_, least := lostOf(leases)
		local.Jump(least - pacedTTL/10) // The time that is left is enough.
		for range 20 {
			time.Sleep(time.Second)
			lost, _ := lostOf(leases)
			require.Zero(t, lost)
		}
	})
}

// Nodes that come back in time renew the remaining leases, however many renewals failed before.
func TestNoLeaseEndsInThePauseBetweenTwoTries(t *testing.T) {
	const held, each = 12_000, 40 * time.Microsecond // A round of all leases takes half a second.
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := ladenClient(f, each)
		leases := take(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		time.Sleep(pacedTTL)
		f.Pause(0, 1, 2)
		_, least := lostOf(leases)
		time.Sleep(least - pacedTTL/20)
		f.Resume(0, 1, 2)
		time.Sleep(pacedTTL)
		lost, _ := lostOf(leases)
		require.Zero(t, lost)
	})
}
