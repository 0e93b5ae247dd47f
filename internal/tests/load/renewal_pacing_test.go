//go:build !race

package load_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node/memory"
)

// slowNode is a node that takes some time for each operation, like a server on a busy machine.
type slowNode struct {
	*memory.Node
	each atomic.Int64
	// ops and exchanges count the operations and exchanges of the node.
	ops, exchanges atomic.Int64
}

func (s *slowNode) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	s.ops.Add(int64(len(ops)))
	s.exchanges.Add(1)
	time.Sleep(time.Duration(s.each.Load()) * time.Duration(len(ops)))
	s.Node.Do(ctx, ops, replies)
}

// slowNodesClient makes a client of nodes that take the given time for each operation.
func slowNodesClient(f *fleet.Fleet, each time.Duration, changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*slowNode) {
	var nodes []*slowNode
	c := f.Client(func(cfg *quorumlock.Config) {
		cfg.Nodes = nil
		for _, m := range f.Nodes {
			nd := &slowNode{Node: m}
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

// acquireAll acquires n locks, 128 at a time.
func acquireAll(t *testing.T, n int, lock func(i int) *quorumlock.Lock) []*quorumlock.Lease {
	t.Helper()
	const takers = 128
	leases := make([]*quorumlock.Lease, n)
	t.Cleanup(func() { runtime.KeepAlive(leases) })
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

// lostOf counts the lost leases, and returns the shortest remaining validity of the others.
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

// pacedTTL is the TTL of most leases here. Each is renewed every third of it, if the nodes have the
// capacity.
const pacedTTL = 10 * time.Second

// A client holds more leases than its nodes can renew in a third of a TTL. It renews as fast as
// they can, the most urgent lease first. It loses nothing if they can renew all leases within a
// TTL.
func TestRenewalsKeepPaceWithNodes(t *testing.T) {
	const (
		held    = 8000
		each    = 875 * time.Microsecond // A round of all leases takes 7 s.
		lasting = 40 * time.Second
	)
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var failed atomic.Int64
		c, nodes := slowNodesClient(f, each, func(cfg *quorumlock.Config) {
			cfg.Hooks.RenewalFailed = func(quorumlock.RenewalEvent) { failed.Add(1) }
		})
		leases := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		short := quorumlock.LockOptions{TTL: pacedTTL / 5} // These leases cannot wait as long as the others.
		leases = append(leases, acquireAll(t, 20, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("s", i)).With(short) })...)
		for range int(lasting / time.Second) {
			time.Sleep(time.Second)
			lost, least := lostOf(leases)
			require.Zero(t, lost)
			require.Greater(t, least, pacedTTL/20)
		}
		require.Zero(t, failed.Load(), "renewals must not time out, as the client sends no more than the nodes can take")
		for _, nd := range nodes {
			require.Greater(t, nd.ops.Load(), 100*nd.exchanges.Load(), "operations must be sent in batches")
		}
	})
}

// The nodes cannot renew all leases in time. The client keeps as many leases as they can renew, and loses only
// the rest.
func TestOverloadLosesOnlyExcessLeases(t *testing.T) {
	const (
		held    = 8000
		each    = 1800 * time.Microsecond // A round of all leases takes 14 s, and a TTL is enough for 5,500.
		lasting = 40 * time.Second
	)
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := slowNodesClient(f, each)
		leases := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		time.Sleep(lasting)
		lost, _ := lostOf(leases)
		require.Greater(t, held-lost, 4300)
		time.Sleep(lasting)
		again, _ := lostOf(leases)
		require.Equal(t, lost, again, "the nodes can renew the remaining leases")
	})
}

// A lease whose renewal waits for capacity must end when its validity ends, and not when the renewal's turn
// comes.
func TestLeaseWaitingForCapacityEndsInTime(t *testing.T) {
	const held = 5000
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, nodes := slowNodesClient(f, 10*time.Microsecond)
		leases := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		var contexts []context.Context // made early, since Context itself ends one whose time is over
		for _, l := range leases {
			contexts = append(contexts, l.Context())
		}
		for _, nd := range nodes {
			nd.each.Store(int64(1900 * time.Microsecond)) // A full batch is just in time.
		}
		for range int(pacedTTL / time.Second * 10) {
			time.Sleep(100 * time.Millisecond)
			fleet.Settle()
			for i, l := range leases {
				require.Equal(t, l.Err() != nil, contexts[i].Err() != nil)
			}
		}
		lost, _ := lostOf(leases)
		require.Positive(t, lost, "the nodes had no capacity for all renewals")
	})
}

// A hung or slow node must not delay renewals of leases that do not need it.
func TestRenewalsDoNotWaitForABadNode(t *testing.T) {
	const held, each = 4000, 100 * time.Microsecond
	for bad, be := range map[string]func(*slowNode){
		"hung": func(nd *slowNode) { nd.Pause() },
		"slow": func(nd *slowNode) { nd.each.Store(int64(1900 * time.Microsecond)) }, // A full batch is just in time.
	} {
		t.Run(bad, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				c, nodes := slowNodesClient(f, each)
				leases := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
				_ = acquireAll(t, held/4, func(i int) *quorumlock.Lock { return c.MultiLock(fmt.Sprint("m", i)) }) // These need all nodes.
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
func TestAcquisitionsDoNotStarveRenewals(t *testing.T) {
	const held, callers, each = 2000, 3000, 350 * time.Microsecond
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := slowNodesClient(f, each)
		leases := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
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

// Few leases need all nodes, and many need a majority. All are renewed, as the nodes have enough capacity.
func TestMajorityRenewalsDoNotStarveMultiLocks(t *testing.T) {
	const held, each = 4000, 1500 * time.Microsecond // A round of all leases takes 6 s.
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := slowNodesClient(f, each)
		all := acquireAll(t, 70, func(i int) *quorumlock.Lock { return c.MultiLock(fmt.Sprint("m", i)) })
		most := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
		for range 30 {
			time.Sleep(time.Second)
			lost, _ := lostOf(all)
			require.Zero(t, lost, "leases that need all nodes")
			lost, _ = lostOf(most)
			require.Zero(t, lost, "leases that need a majority")
		}
	})
}

// The client is suspended during an exchange, which therefore seems to take long. The client must not conclude
// that the nodes are slow, and drop leases.
func TestSuspendDoesNotCountAsSlowNodes(t *testing.T) {
	const held, each = 3000, 160 * time.Microsecond // A round of all leases takes half a second.
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		local := testkit.NewSkewed(f.Clock, 1)
		c, nodes := slowNodesClient(f, each, func(cfg *quorumlock.Config) { cfg.Clock = local })
		leases := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
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
		local.Jump(least - pacedTTL/10) // The remaining validity is enough for one round of renewals.
		for range 20 {
			time.Sleep(time.Second)
			lost, _ := lostOf(leases)
			require.Zero(t, lost)
		}
	})
}

// All nodes hang, and resume shortly before the leases end. The next renewals must be sent in time, although
// earlier ones have failed.
func TestRenewalRetriesInTimeAfterAHang(t *testing.T) {
	const held, each = 3000, 160 * time.Microsecond // A round of all leases takes half a second.
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, _ := slowNodesClient(f, each)
		leases := acquireAll(t, held, func(i int) *quorumlock.Lock { return c.RedLock(fmt.Sprint("l", i)) })
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

// One client holds leases with TTLs from 10 ms to an hour. Each lease is renewed about once in a third of its
// TTL, and no more often. The test runs with 1 to 64 nodes.
func TestLeasesOfAllTTLsAreRenewedOnTime(t *testing.T) {
	for _, n := range fleet.Longer([]int{1, 64}, []int{1, 3, 8, 64}) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fleet.InVirtualTime(t, n, func(t *testing.T, f *fleet.Fleet) {
				lasting := time.Second
				if n == 64 {
					lasting /= 4 // 64 nodes renew the shortest TTLs 100,000 times in that time
				}
				var mu sync.Mutex
				renewed := map[string]int{}
				r := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // a test
				c := f.Client(func(cfg *quorumlock.Config) {
					cfg.NodeTimeoutMax = 3 * time.Millisecond
					cfg.MaxTTL = time.Hour
					cfg.TTL = 10 * time.Second
					cfg.Hooks.Renewed = func(e quorumlock.RenewalEvent) {
						mu.Lock()
						defer mu.Unlock()
						renewed[e.Owner]++
					}
				})
				names := make([]string, 300)
				for i := range names {
					names[i] = fmt.Sprint("many", i)
				}
				type one struct {
					*quorumlock.Lease
					ttl, began time.Duration
				}
				var leases []one
				for i, ttl := range []time.Duration{10 * time.Millisecond, 11 * time.Millisecond, 127 * time.Millisecond, 128 * time.Millisecond, time.Second, 9999 * time.Millisecond, 10 * time.Second, time.Hour} {
					for j := range 5 {
						l := c.RedLock(fmt.Sprint("l", i, ".", j))
						if j == 4 && n < 10 {
							l = c.MultiLock(names[i*30 : i*30+30]...)
						}
						lease, err := l.With(quorumlock.LockOptions{TTL: ttl}).Acquire(t.Context())
						require.NoError(t, err)
						leases = append(leases, one{lease, ttl, f.Clock.Now()})
						time.Sleep(time.Duration(r.IntN(int(7 * time.Millisecond))))
					}
				}
				time.Sleep(lasting)
				fleet.Settle()
				mu.Lock()
				for _, l := range leases {
					require.NoError(t, l.Err(), "TTL %v", l.ttl)
					held := f.Clock.Now() - l.began
					least, most := int(held/(l.ttl/3))-1, int(held/(l.ttl*28/100))+1
					require.GreaterOrEqual(t, renewed[l.Owner()], least, "TTL %v", l.ttl)
					require.LessOrEqual(t, renewed[l.Owner()], most, "TTL %v", l.ttl)
				}
				mu.Unlock()
				for _, l := range leases {
					require.NoError(t, l.Release(context.Background()))
				}
				f.RequireNoKeys()
			})
		})
	}
}
