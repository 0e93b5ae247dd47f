package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// shortTTL is 100 ms, as in the first example of redislock. shortTimeout is how long an operation of such
// a lock waits for a node: a third of the TTL, in whole milliseconds.
const (
	shortTTL     = 100 * time.Millisecond
	shortTimeout = 33 * time.Millisecond
)

// defaultTimeout is the default of NodeTimeoutMax.
const defaultTimeout = 500 * time.Millisecond

func withTTL(ttl time.Duration) quorumlock.LockOptions { return quorumlock.LockOptions{TTL: ttl} }

func TestShortTTLNeedsNoOtherSetting(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		for what, lock := range map[string]*quorumlock.Lock{
			"TTL of the lock":   f.Client().RedLock("a").With(withTTL(shortTTL)),
			"TTL of the client": f.Client(func(cfg *quorumlock.Config) { cfg.TTL = shortTTL }).RedLock("b"),
			"TTL of a reader":   f.Client().RWLock("c").Read().With(withTTL(shortTTL)),
		} {
			lease, err := lock.TryAcquire(t.Context())
			require.NoError(t, err, what)
			for range 100 {
				time.Sleep(20 * time.Millisecond)
				require.NoError(t, lease.Err(), what)
				require.LessOrEqual(t, lease.Remaining(), shortTTL-decision.Drift(shortTTL), what)
			}
			require.NoError(t, lease.Release(t.Context()), what)
			f.RequireNoKeys()
		}
	})
}

// The first call tells the nodes the client's list, in two rounds. Only then a third of the TTL begins.
func TestShortTTLAtTheFirstCall(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := f.SpiedClient()
		for _, w := range wires {
			w.Set(func(s *fleet.Spy) { s.Before = func([]wire.Op) { time.Sleep(shortTimeout * 2 / 3) } })
		}
		lease, err := client.RedLock("job").With(withTTL(shortTTL)).TryAcquire(t.Context())
		require.NoError(t, err)
		_ = lease.Release(t.Context())
	})
}

// The smallest TTL leaves 7.9 ms after drift.
func TestSmallestTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(withTTL(10*time.Millisecond)))
		require.Equal(t, 7900*time.Microsecond, lease.Remaining())
		time.Sleep(time.Second)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// Nodes store TTLs in whole milliseconds, so the lease must not count on a fraction.
func TestTTLIsRoundedDownToMilliseconds(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		for _, ttl := range []time.Duration{shortTTL, shortTTL + 1, shortTTL + time.Millisecond - 1} {
			fixed := withTTL(ttl)
			fixed.Fixed = true
			for _, lock := range []*quorumlock.Lock{
				f.Client().RedLock("job").With(fixed),
				f.Client(func(cfg *quorumlock.Config) { cfg.TTL = ttl }).RedLock("job"),
			} {
				lease, err := lock.TryAcquire(t.Context())
				require.NoError(t, err, ttl)
				require.Equal(t, shortTTL-decision.Drift(shortTTL), lease.Remaining(), ttl)
				held, err := lock.Inspect(t.Context())
				require.NoError(t, err)
				require.Equal(t, shortTTL, held.Nodes[0].Holders[0].TTL, "the node has the same TTL")
				require.NoError(t, lease.Release(t.Context()))
			}
		}
		most := f.Client().RedLock("job").With(withTTL(quorumlock.DefaultTTL + time.Microsecond))
		lease, err := most.TryAcquire(t.Context())
		require.NoError(t, err, "rounded down, the TTL does not exceed MaxTTL")
		require.NoError(t, lease.Release(t.Context()))

		for _, ttl := range []time.Duration{1, 999 * time.Microsecond, 1500 * time.Microsecond, 10*time.Millisecond - 1} {
			_, err := f.Client().RedLock("job").With(withTTL(ttl)).TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
			require.ErrorContains(t, err, "TTL "+ttl.String()+" is under 10ms")
		}
	})
}

// A timeout that is set explicitly is not shortened for locks with a short TTL. A TTL that is too small for it
// is invalid.
func TestExplicitTimeoutNeedsAMatchingTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		for what, test := range map[string]struct {
			set  func(*quorumlock.Config)
			says string
		}{
			"NodeTimeoutMax": {
				func(cfg *quorumlock.Config) { cfg.NodeTimeoutMax = 200 * time.Millisecond },
				"TTL 599ms is too small for NodeTimeoutMax 200ms, which is set",
			},
			"NodeTimeoutMin": {
				func(cfg *quorumlock.Config) { cfg.NodeTimeoutMin = 200 * time.Millisecond },
				"TTL 599ms is too small for NodeTimeoutMin 200ms, which is set",
			},
		} {
			c := f.Client(test.set)
			_, err := c.RedLock("job").With(withTTL(599 * time.Millisecond)).TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid, what)
			require.ErrorContains(t, err, test.says)
			lease, err := c.RedLock("job").With(withTTL(600 * time.Millisecond)).TryAcquire(t.Context())
			require.NoError(t, err, what)
			require.NoError(t, lease.Release(t.Context()))

			cfg := quorumlock.Config{Nodes: []node.Node{f.Nodes[0]}, TTL: 599 * time.Millisecond}
			test.set(&cfg)
			_, err = quorumlock.New(cfg)
			require.ErrorContains(t, err, test.says)
		}
	})
}

// A caller of a lock with a short TTL waits for hung nodes for a third of the TTL. Callers of other locks of
// the same client wait for the node timeout. The client undoes late grants.
func TestHungNodesDelayShortLockByAThirdOfItsTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		short, long := c.RedLock("short").With(withTTL(shortTTL)), c.RedLock("long")
		another := c.RedLock("another").With(withTTL(shortTTL))
		fails := func(lock *quorumlock.Lock, after time.Duration) func() {
			done := make(chan error, 1)
			began := f.Clock.Now()
			var took time.Duration
			go func() {
				_, err := lock.TryAcquire(t.Context())
				took = f.Clock.Now() - began
				done <- err
			}()
			return func() {
				err := <-done
				require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
				require.ErrorIs(t, err, node.ErrTimeout)
				require.Equal(t, after, took, lock.Names())
			}
		}
		f.Introduce(c)
		f.Pause(0, 1)
		began := f.Clock.Now()
		first := fails(short, shortTimeout)
		fleet.Settle()
		time.Sleep(10 * time.Millisecond)
		second, other := fails(another, shortTimeout), fails(long, defaultTimeout/2-10*time.Millisecond) // which it is for nodes that have answered soon
		first()
		second()
		require.Less(t, f.Clock.Now()-began, defaultTimeout)
		other()

		f.Resume(0, 1)
		f.RequireNoKeys()
		for _, lock := range []*quorumlock.Lock{short, another, long} {
			lease, err := lock.TryAcquire(t.Context())
			require.NoError(t, err, "the nodes answer again")
			require.NoError(t, lease.Release(t.Context()))
		}
	})
}

// Two nodes answer after a third of the TTL, but before the client's node timeout. The client undoes the late
// grants, and does not treat the nodes as down.
func TestLateGrantOfShortLockIsUndone(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var failed []string
		c, other := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeDown = func(name string, _ error) { failed = append(failed, name) }
		}), f.Client()
		f.Pause(0, 1)
		_, err := c.RedLock("job").With(withTTL(shortTTL)).TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.Resume(0, 1) // Both nodes grant now, too late for the caller.
		f.RequireNoKeys()
		lease, err := other.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		lease, err = c.RedLock("job").With(withTTL(shortTTL)).TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		require.Empty(t, failed)
	})
}

// Extend and Release wait for hung nodes for a third of the TTL.
func TestHungNodesDelayExtendAndReleaseByAThirdOfTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fixed := withTTL(shortTTL)
		fixed.Fixed = true
		lease, err := f.Client().RedLock("job").With(fixed).TryAcquire(t.Context())
		require.NoError(t, err)
		f.Pause(0, 1)
		require.Equal(t, shortTimeout, f.Elapsed(func() {
			require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum)
		}))
		require.Equal(t, shortTimeout, f.Elapsed(func() {
			require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrNoQuorum)
		}))
		f.Resume(0, 1)
		f.RequireNoKeys()
	})
}

// A renewal is confirmed after its deadline of a third of the TTL, while the lease is still valid. It still
// counts, as failed renewals are not undone. Once a recovery, after 11 s, the nodes are told the list of nodes: a
// renewal that has to wait for that exchange too may come too late, as it may behind any other operation.
func TestLateRenewalKeepsShortLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var failed atomic.Int64
		client, wires := f.SpiedClient(func(cfg *quorumlock.Config) {
			cfg.Hooks.RenewalFailed = func(quorumlock.RenewalEvent) { failed.Add(1) }
		})
		lease, err := client.RedLock("job").With(withTTL(shortTTL)).TryAcquire(t.Context())
		require.NoError(t, err)
		for _, w := range wires[1:] {
			w.Muted.Store(int64(shortTimeout + 5*time.Millisecond))
		}
		time.Sleep(10 * time.Second)
		require.NoError(t, lease.Err())
		require.Greater(t, failed.Load(), int64(100), "the renewals were late")
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrNoQuorum, "the release is late too")
		time.Sleep(time.Second)
		f.RequireNoKeys()
	})
}

// An extension is confirmed after its deadline. It counts for the time that it asked for, which is shorter than the TTL.
func TestLateExtensionCountsForItsOwnTime(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const ttl, longer = 300 * time.Millisecond, 160 * time.Millisecond
		fixed := withTTL(ttl)
		fixed.Fixed = true
		client, wires := f.SpiedClient()
		lease, err := client.RedLock("job").With(fixed).TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(ttl / 2)
		for _, w := range wires {
			w.Muted.Store(int64(ttl/3 + 5*time.Millisecond))
		}
		sent := f.Clock.Now()
		require.ErrorIs(t, lease.ExtendFor(t.Context(), longer), quorumlock.ErrNoQuorum)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, sent+longer-decision.Drift(longer)-f.Clock.Now(), lease.Remaining())
	})
}

// A waiter of a lock with a short TTL acquires it soon after hung nodes answer again.
func TestWaiterOfShortLockOutlastsAHang(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job").With(withTTL(shortTTL))
		f.Pause(0, 1)
		time.AfterFunc(2*time.Second, func() { f.Resume(0, 1) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		took := f.Elapsed(func() {
			lease, err := lock.Acquire(ctx)
			require.NoError(t, err)
			require.NoError(t, lease.Release(ctx))
		})
		require.Less(t, took, 3*time.Second)
		f.RequireNoKeys()
	})
}
