package semaphore_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// usage counts the permits that are held at the same time.
type usage struct {
	t         *testing.T
	most      int64
	now, peak atomic.Int64
}

func (c *usage) enter(n int) {
	now := c.now.Add(int64(n))
	require.LessOrEqual(c.t, now, c.most, "more permits are held than the semaphore has")
	for {
		peak := c.peak.Load()
		if now <= peak || c.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

func (c *usage) leave(n int) { c.now.Add(int64(-n)) }

// permits acquires n permits, which must be free.
func permits(t *testing.T, s *quorumlock.Semaphore, n int) *quorumlock.Lease {
	t.Helper()
	lease, err := s.TryAcquire(t.Context(), n)
	require.NoError(t, err)
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	fleet.Settle()
	return lease
}

func TestSemaphoreGrantsOnlyItsPermits(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client().Semaphore("jobs", 3), f.Client().Semaphore("jobs", 3)
		first := permits(t, a, 2)
		second := permits(t, b, 1)
		_, err := a.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		require.ErrorContains(t, err, `too few permits of "jobs" are free: one is held by `)
		_, err = b.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		require.ElementsMatch(t, []int{0, 1, 2}, append(first.Slots(), second.Slots()...))
		require.NoError(t, first.Release(t.Context()))
		_, err = b.TryAcquire(t.Context(), 3)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		third := permits(t, b, 2)
		require.NoError(t, second.Release(t.Context()))
		require.NoError(t, third.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// One TryAcquire finds a free permit, even if only one is left. A new client asks for random slots. If they are
// taken, the denials report the free ones, and the client asks once more.
func TestFreePermitsAreFound(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		const size = 50
		for i := range size {
			lease := permits(t, f.Client().Semaphore("jobs", size), 1)
			require.Len(t, lease.Slots(), 1, "%d", i)
		}
		_, err := f.Client().Semaphore("jobs", size).TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
	})
}

func TestUncontendedPermitsTakeOneRoundTrip(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		s := c.Semaphore("jobs", 10)
		var held []*quorumlock.Lease
		for range 5 { // The only holder knows which slots are free.
			lease, err := s.Acquire(t.Context(), 2)
			require.NoError(t, err)
			held = append(held, lease)
		}
		for _, lease := range held {
			require.NoError(t, lease.Release(t.Context()))
		}
		for range 5 {
			lease, err := s.Acquire(t.Context(), 10)
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
		}
		fleet.Settle()
		for _, spy := range spies {
			require.Equal(t, 10, spy.Asked())
		}
	})
}

// There is one client more than permits. The permits are never exceeded, all of them are used, and every waiter
// is served.
func TestPermitsAreNeverExceeded(t *testing.T) {
	for _, p := range []int{1, 2, 3, 7} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				c := &usage{t: t, most: int64(p)}
				var wg sync.WaitGroup
				for range p + 1 {
					s := f.Client().Semaphore("jobs", p)
					wg.Go(func() {
						for range 30 {
							lease, err := s.Acquire(t.Context(), 1)
							if err != nil {
								t.Error(err)
								return
							}
							c.enter(1)
							time.Sleep(3 * time.Millisecond)
							c.leave(1)
							if err := lease.Release(t.Context()); err != nil {
								t.Error(err)
							}
						}
					})
				}
				wg.Wait()
				require.EqualValues(t, p, c.peak.Load())
				f.RequireNoKeys()
			})
		})
	}
}

func TestPermitsOfManyCallersInOneClient(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		const p = 8
		c := &usage{t: t, most: p}
		s := f.Client().Semaphore("jobs", p)
		var wg sync.WaitGroup
		took := f.Elapsed(func() {
			for i := range 80 {
				n := i%4 + 1
				wg.Go(func() {
					err := s.Do(t.Context(), n, func(context.Context) error {
						c.enter(n)
						time.Sleep(10 * time.Millisecond)
						c.leave(n)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
		require.Less(t, took, time.Second, "200 permits for 10 ms each, 8 at a time: 250 ms at best")
		f.RequireNoKeys()
	})
}

func TestWaitersForPermitsAreServedInOrder(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		full := permits(t, f.Client().Semaphore("jobs", 4), 4)
		var got [12]time.Duration
		var wg sync.WaitGroup
		for i := range got {
			s := f.Client().Semaphore("jobs", 4)
			n := []int{1, 3, 2}[i%3]
			wg.Go(func() {
				lease, err := s.Acquire(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				got[i] = f.Clock.Now()
				time.Sleep(10 * time.Millisecond)
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
			fleet.Settle()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, full.Release(t.Context()))
		wg.Wait()
		require.IsNonDecreasing(t, got[:])
		require.Less(t, got[11]-got[0], 90*time.Millisecond, "24 permits for 10 ms each, 4 at a time: 60 ms at best")
		f.RequireNoKeys()
	})
}

// A call that comes just as an earlier one of its client is granted does not pass those that still wait.
func TestNewCallForPermitsPassesNoOther(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		other := f.Client().Semaphore("jobs", 3)
		var held []*quorumlock.Lease
		for range 3 {
			held = append(held, permits(t, other, 1))
		}
		client, _ := f.DistantClient(5 * time.Millisecond)
		s := client.Semaphore("jobs", 3)
		var calls []*fleet.Acquisition
		for range 3 {
			calls = append(calls, acquire(t, s, 1))
			time.Sleep(time.Second) // those behind the first ask no node
		}
		for _, lease := range held {
			require.NoError(t, lease.Release(t.Context()))
		}
		<-calls[0].Done
		last := acquire(t, s, 1)
		time.Sleep(time.Second)
		for _, call := range calls {
			call.Has()
		}
		require.True(t, last.Waits())
	})
}

// A call for many permits that must wait is not passed by one for few, even if both ask at the same time.
func TestCallForFewPermitsDoesNotPassOneForMany(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, _ := f.DistantClient(5 * time.Millisecond)
		s := client.Semaphore("jobs", 4)
		held := permits(t, s, 2)
		many, few := acquire(t, s, 3), acquire(t, s, 1)
		time.Sleep(time.Second)
		require.True(t, many.Waits())
		require.True(t, few.Waits())
		require.NoError(t, held.Release(t.Context()))
		time.Sleep(time.Second)
		many.Has()
		few.Has()
	})
}

// Calls that come at the same time, in whatever order they look, ask at the same time while there are enough permits.
func TestCallsForFreePermitsDoNotWaitForEachOther(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, _ := f.DistantClient(10 * time.Millisecond)
		s := client.Semaphore("jobs", 1024)
		permits(t, s, 1) // from now on, the nodes know the client's list
		begin := make(chan struct{})
		var wg sync.WaitGroup
		var leases [900]*quorumlock.Lease
		for i := range leases {
			wg.Go(func() {
				<-begin
				var err error
				leases[i], err = s.Acquire(t.Context(), 1)
				assert.NoError(t, err)
			})
		}
		fleet.Settle()
		took := f.Elapsed(func() { close(begin); wg.Wait() })
		require.LessOrEqual(t, took, 300*time.Millisecond, "in 20 ms, a node answers some 128 of them")
		runtime.KeepAlive(leases)
	})
}

// Callers that return soon share the permits, in one client and in several: none waits for long, and few attempts are in
// vain, since each of these costs the nodes a place in their queues.
func TestCrowdSharesPermits(t *testing.T) {
	const callers, rounds = 512, 5
	for _, c := range []struct {
		clients, most int
		all, longest  time.Duration
	}{
		{1, 1, 1200 * time.Millisecond, 500 * time.Millisecond},
		{1, 3, 1500 * time.Millisecond, 500 * time.Millisecond},
		{2, 1, 3 * time.Second, 1500 * time.Millisecond},
		{2, 3, 3 * time.Second, 1500 * time.Millisecond},
	} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			var wg sync.WaitGroup
			var longest atomic.Int64
			var nodes []*fleet.Spy
			call := func(s *quorumlock.Semaphore, permits int) {
				came := f.Clock.Now()
				lease, err := s.Acquire(t.Context(), permits)
				if err != nil {
					t.Error(err)
					return
				}
				waited := int64(f.Clock.Now() - came)
				for most := longest.Load(); most < waited && !longest.CompareAndSwap(most, waited); most = longest.Load() {
				}
				time.Sleep(10 * time.Millisecond)
				assert.NoError(t, lease.Release(t.Context()))
			}
			took := f.Elapsed(func() {
				for range c.clients {
					client, spies := f.DistantClient(2 * time.Millisecond)
					nodes = append(nodes, spies...)
					s := client.Semaphore("jobs", 128)
					for i := range callers / c.clients {
						wg.Go(func() {
							for round := range rounds {
								call(s, 1+(i*7+round)%c.most)
							}
						})
					}
				}
				wg.Wait()
			})
			require.LessOrEqual(t, took, c.all, "%+v", c)
			require.LessOrEqual(t, time.Duration(longest.Load()), c.longest, "%+v", c)
			require.LessOrEqual(t, fleet.TotalAsked(nodes)/len(f.Nodes), callers*rounds*3/2, "%+v", c)
		})
	}
}

// A call that names a slot of another client is denied once. That does not slow those that come later, while enough
// permits are free.
func TestDenialDoesNotSlowLaterCalls(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		for range 3 {
			permits(t, f.Client().Semaphore("jobs", 1000), 100)
		}
		client, _ := f.DistantClient(10 * time.Millisecond)
		s := client.Semaphore("jobs", 1000)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				came := f.Clock.Now()
				lease, err := s.Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				assert.LessOrEqual(t, f.Clock.Now()-came, 500*time.Millisecond)
				time.Sleep(4 * time.Second)
				assert.NoError(t, lease.Release(t.Context()))
			})
			time.Sleep(8 * time.Millisecond)
		}
		wg.Wait()
	})
}

// The first calls of a client wait until the nodes have noted its list. They do not pass each other then.
func TestFirstCallsForPermitsAskInTheirOrder(t *testing.T) {
	for range 10 {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			client, _ := f.DistantClient(5 * time.Millisecond)
			s := client.Semaphore("jobs", 4)
			first, many, few := acquire(t, s, 3), acquire(t, s, 3), acquire(t, s, 1)
			time.Sleep(time.Second)
			first.Has()
			require.True(t, many.Waits())
			require.True(t, few.Waits())
		})
	}
}

// The TTL of a first call begins when the nodes have noted the client's list.
func TestFirstCallForPermitsHasItsWholeTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, nodes := f.DistantClient(30 * time.Millisecond)
		s := client.Semaphore("jobs", 4).With(quorumlock.LockOptions{TTL: 300 * time.Millisecond})
		lease, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, len(nodes), fleet.TotalAsked(nodes))
		require.NoError(t, lease.Release(t.Context()))
	})
}

// overtaken is a node on which another client has always just set the number of permits.
type overtaken struct{ node.Node }

func (n overtaken) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	n.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Resize && op.Pool.Version != 0 {
			replies[i] = wire.Reply{Outcome: wire.Denied, Pool: wire.PoolState{Size: 9, Version: op.Pool.Version + 1}}
		}
	}
}

// A SetPermits that loses again and again names the nodes that did not take its number.
func TestSetPermitsThatLosesNamesTheNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client(func(cfg *quorumlock.Config) {
			cfg.Nodes[0], cfg.Nodes[2] = overtaken{cfg.Nodes[0]}, overtaken{cfg.Nodes[2]}
		})
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, c.Semaphore("jobs", 4).SetPermits(t.Context(), 2), &short)
		require.Equal(t, 1, short.Agreed)
		require.Len(t, short.Nodes, 2)
		for i, name := range []string{"n1", "n3"} {
			require.Equal(t, name, short.Nodes[i].Node)
			var one *node.Error
			require.ErrorAs(t, short.Nodes[i].Err, &one)
			require.Equal(t, wire.Resize.String(), one.Op)
		}
	})
}
