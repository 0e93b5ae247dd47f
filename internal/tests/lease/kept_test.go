package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/quorum"
)

// A JointLease may be released any number of times, also while the nodes keep its locks.
func TestMinHoldOfAJointLeaseThatIsReleasedTwice(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		a, b := c.RedLock("a").With(atLeast(5*time.Second)), c.RedLock("b")
		joint, err := quorumlock.Join(a, b).Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, joint.Release(t.Context()))
		for range 2 {
			require.Zero(t, f.Elapsed(func() { require.ErrorIs(t, joint.Release(t.Context()), quorumlock.ErrReleased) }))
		}
	})
}

// A forced release of a kept lock also frees it for waiters of the client that keeps it.
func TestForceReleaseOfAKeptLockServesWaitersOfItsClient(t *testing.T) {
	for how, ttl := range map[string]time.Duration{"TTL below MinHold": time.Second, "TTL above MinHold": quorumlock.DefaultTTL} {
		t.Run(how, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				client := f.Client()
				lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: ttl, MinHold: 9 * time.Second}))
				wait := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
				require.NoError(t, lease.Release(t.Context()))
				late := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
				time.Sleep(100 * time.Millisecond)
				_, err := f.Client().RedLock("job").ForceRelease(t.Context())
				require.NoError(t, err)
				time.Sleep(2 * time.Second)
				require.NoError(t, wait.Has().Release(t.Context()))
				require.NoError(t, late.Has().Release(t.Context()))
			})
		})
	}
}

// A renewal that began before the release says nothing about the rest of the MinHold. Its deadline of
// TTL/3 passes first; then the nodes confirm the renewal that keeps the lock.
func TestKeepIgnoresTheFailureOfAnEarlierRenewal(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(quorumlock.LockOptions{TTL: 300 * time.Millisecond, MinHold: 9 * time.Second}))
		f.Pause(0, 1)
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(context.Background()) }()
		time.Sleep(70 * time.Millisecond)
		go func() {
			time.Sleep(60 * time.Millisecond)
			f.Resume(0, 1)
		}()
		require.Equal(t, 60*time.Millisecond, f.Elapsed(func() { require.NoError(t, lease.Release(t.Context())) }))
		require.Error(t, <-extended)
	})
}

// Once the claims may have ended, the client puts the lock back on no node: not when nodes answer again, and not at
// its Close. It still removes the remains when the MinHold has passed.
func TestMinHoldThatHasLapsedIsNotRevived(t *testing.T) {
	for how, after := range map[string]func(*testing.T, *quorumlock.Client){
		"while the client lives": func(*testing.T, *quorumlock.Client) {},
		"at Close":               func(t *testing.T, c *quorumlock.Client) { _ = c.Close(t.Context()) },
	} {
		t.Run(how, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				const hold = 9 * time.Second
				client := f.Client()
				began := f.Clock.Now()
				lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: time.Second, MinHold: hold}))
				f.Stop(0, 1)
				require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrNoQuorum)
				time.Sleep(1100 * time.Millisecond)
				f.Start(0, 1)
				after(t, client)
				for range 70 {
					time.Sleep(100 * time.Millisecond)
					require.Empty(t, f.Nodes[0].Keys())
					require.Empty(t, f.Nodes[1].Keys())
				}
				require.NotEmpty(t, f.Nodes[2].Keys())
				time.Sleep(began + hold + time.Millisecond - f.Clock.Now())
				require.Equal(t, how == "at Close", len(f.Nodes[2].Keys()) > 0, "Close leaves it to the TTL")
				time.Sleep(100 * time.Millisecond)
				f.RequireNoKeys()
			})
		})
	}
}

// Release does not wait for nodes beyond the end of the claims.
func TestReleaseReportsAMinHoldThatLapsesMeanwhile(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(quorumlock.LockOptions{TTL: 300 * time.Millisecond, MinHold: 9 * time.Second}))
		f.Pause(0, 1, 2)
		time.Sleep(200 * time.Millisecond)
		left := lease.Remaining()
		var err error
		require.Equal(t, left, f.Elapsed(func() { err = lease.Release(t.Context()) }))
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &short)
		require.Equal(t, "keep", short.Op)
		f.Resume(0, 1, 2)
	})
}

// Nothing renews a Fixed lease, but the rest of its MinHold is repeated until nodes have it.
func TestMinHoldOfAFixedLeaseIsRetried(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := f.WiredClient()
		for _, w := range wires {
			w.Muted.Store(int64(100 * time.Millisecond))
		}
		const ttl = 5 * time.Second
		hold := ttl - quorum.Drift(ttl)
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{Fixed: true, TTL: ttl, MinHold: hold}))
		granted := f.Clock.Now()
		f.Stop(0, 1)
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrNoQuorum)
		f.Start(0, 1)
		time.Sleep(3 * time.Second)
		sever(wires) // the process dies
		next, err := f.Client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, f.Clock.Now()-granted, hold)
		require.NoError(t, next.Release(t.Context()))
	})
}

// A lock that was released by force is lost, and not kept. A node that has just confirmed the rest of the MinHold
// is told to remove it for as long as that rest lasts.
func TestMinHoldOfALeaseReleasedByForce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		long := func(cfg *quorumlock.Config) { cfg.MaxTTL = time.Hour }
		client, wires := f.WiredClient(long)
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{MinHold: 30 * time.Minute}))
		f.Stop(2)
		_, err := f.Client(long).RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		f.Start(2)

		wires[0].Slow.Store(int64(50 * time.Millisecond))
		wires[1].Slow.Store(int64(50 * time.Millisecond))
		go func() {
			time.Sleep(10 * time.Millisecond) // node 2 has confirmed
			wires[2].Severed.Store(true)
		}()
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
		require.NotEmpty(t, f.Nodes[2].Keys())
		time.Sleep(5 * time.Minute)
		require.NotEmpty(t, f.Nodes[2].Keys())
		wires[2].Severed.Store(false)
		time.Sleep(time.Minute)
		f.RequireNoKeys()
	})
}

// A lease with a MinHold is not handed over: its client may not pass the lock on before the MinHold has passed.
func TestMinHoldIsNotHandedOver(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const hold = 5 * time.Second
		first := fleet.MustAcquire(t, f.Client().RedLock("job"))
		lock := f.Client().RedLock("job").With(atLeast(hold))
		// The first waiter would reserve a token for the second.
		one, two := fleet.StartAcquire(t.Context(), t, lock), fleet.StartAcquire(t.Context(), t, lock)
		require.True(t, one.Waits())
		require.NoError(t, first.Release(t.Context()))
		<-one.Done
		require.NoError(t, one.Err)
		require.NoError(t, one.Lease.Release(t.Context()))
		time.Sleep(hold - time.Second)
		require.True(t, two.Waits())
		time.Sleep(2 * time.Second)
		require.NoError(t, two.Has().Release(t.Context()))
	})
}

// No hook tells of the nodes that back a lease that has ended.
func TestBackingOfAKeptLockIsNotReported(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var ended, after atomic.Int32
		client, wires := f.WiredClient(func(cfg *quorumlock.Config) {
			cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = time.Second, time.Second
			cfg.Hooks.Ended = func(quorumlock.EndedEvent) { ended.Add(1) }
			cfg.Hooks.BackingChanged = func(quorumlock.BackingEvent) { after.Add(ended.Load()) }
		})
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: 3 * time.Second, MinHold: 9 * time.Second}))
		fleet.Settle()
		wires[2].Severed.Store(true)
		time.Sleep(2500 * time.Millisecond)
		wires[0].Muted.Store(int64(600 * time.Millisecond))
		wires[1].Muted.Store(int64(600 * time.Millisecond))
		require.NoError(t, lease.Release(t.Context())) // node 2 drops the lock meanwhile
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, ended.Load())
		require.Zero(t, after.Load())
	})
}

// sever ends a client for the nodes, as the death of its process does.
func sever(wires []*fleet.Wire) {
	for _, w := range wires {
		w.Severed.Store(true)
	}
}

// A renewal from before the release may end before the MinHold, so its success is not enough.
func TestKeepDoesNotRelyOnAnEarlierRenewal(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := f.WiredClient()
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: 3 * time.Second, MinHold: 9 * time.Second}))
		fleet.Settle()
		for _, w := range wires {
			w.Muted.Store(int64(100 * time.Millisecond))
		}
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(context.Background()) }()
		time.Sleep(50 * time.Millisecond)
		go func() {
			time.Sleep(10 * time.Millisecond)
			sever(wires) // the renewal has reached the nodes, and what Release sends has not
		}()
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrNoQuorum)
	})
}

// A lease that is lost before its release is not kept, also where a node still has it.
func TestMinHoldOfALostLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(quorumlock.LockOptions{TTL: 3 * time.Second, MinHold: 9 * time.Second}))
		f.Stop(2)
		_, err := f.Client().RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		f.Start(2)
		<-lease.Context().Done() // a renewal finds it
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
		time.Sleep(100 * time.Millisecond)
		f.RequireNoKeys()
	})
}

// The end of a kept grant does not disturb a later holder of the same client, which still hands its lease over.
func TestEndOfAKeptGrantLeavesTheNextHolderAlone(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lease := fleet.MustAcquire(t, client.RedLock("job").With(atLeast(3*time.Second)))
		one, two := fleet.StartAcquire(t.Context(), t, client.RedLock("job")), fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
		require.NoError(t, lease.Release(t.Context()))
		time.Sleep(2950 * time.Millisecond)
		_, err := f.Client().RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		next := one.Has()
		time.Sleep(70 * time.Millisecond) // the MinHold passes
		require.NoError(t, next.Release(t.Context()))
		require.Equal(t, next.Owner(), two.Has().Owner(), "handed over")
		require.NoError(t, two.Lease.Release(t.Context()))
	})
}
