package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func atLeast(d time.Duration) quorumlock.LockOptions { return quorumlock.LockOptions{MinHold: d} }

// A waiter gets the lock when the MinHold of the released lease has passed, and not before: a waiter of the
// same client, of another client, and one that polls.
func TestMinHoldKeepsAReleasedLock(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, quorumlock.DefaultTTL} {
		for who, next := range map[string]func(f *fleet.Fleet, same *quorumlock.Client) *quorumlock.Lock{
			"the same client": func(_ *fleet.Fleet, same *quorumlock.Client) *quorumlock.Lock { return same.RedLock("job") },
			"another client":  func(f *fleet.Fleet, _ *quorumlock.Client) *quorumlock.Lock { return f.Client().RedLock("job") },
			"a spinning waiter": func(f *fleet.Fleet, _ *quorumlock.Client) *quorumlock.Lock {
				return f.Client().RedLock("job").With(quorumlock.LockOptions{Spin: true})
			},
			"with a MinHold too": func(_ *fleet.Fleet, same *quorumlock.Client) *quorumlock.Lock {
				return same.RedLock("job").With(atLeast(time.Second))
			},
		} {
			t.Run(who+", TTL "+ttl.String(), func(t *testing.T) {
				fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
					const hold = 5 * time.Second
					client := f.Client()
					began := f.Clock.Now()
					lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: ttl, MinHold: hold}))
					wait := fleet.StartAcquire(t.Context(), t, next(f, client))
					time.Sleep(100 * time.Millisecond)

					ctx := lease.Context()
					require.Zero(t, f.Elapsed(func() { require.NoError(t, lease.Release(t.Context())) }), "Release does not wait for the rest")
					require.ErrorIs(t, context.Cause(ctx), quorumlock.ErrReleased)
					require.ErrorIs(t, lease.Err(), quorumlock.ErrReleased)
					require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrReleased)
					require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrReleased)
					require.Zero(t, lease.Remaining())
					require.ErrorIs(t, fleet.MustBeRefused(t, client.RedLock("job")), quorumlock.ErrHeld)
					nested, err := client.RedLock("job").TryAcquire(context.WithoutCancel(ctx))
					require.ErrorIs(t, err, quorumlock.ErrHeld, "nothing nests in a lease that has ended")
					require.Nil(t, nested)

					time.Sleep(hold - 100*time.Millisecond - 1)
					require.True(t, wait.Waits())
					<-wait.Done
					require.NoError(t, wait.Err)
					waited := f.Clock.Now() - began
					require.GreaterOrEqual(t, waited, hold)
					require.LessOrEqual(t, waited, hold+500*time.Millisecond, "it looks once a second, and so knows the rest")
					require.Greater(t, wait.Lease.Token(), lease.Token())
					require.NoError(t, wait.Lease.Release(t.Context()))
					time.Sleep(2 * time.Second) // it may have a MinHold too
					f.RequireNoKeys()
				})
			})
		}
	}
}

// The MinHold counts by the clock of its client, also if the clocks of the nodes are faster by almost the allowance.
func TestMinHoldByASlowClock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const hold = 5 * time.Second
		slow := testkit.NewSkewed(f.Clock, 0.991)
		lease := fleet.MustAcquire(t, f.Client(func(cfg *quorumlock.Config) { cfg.Clock = slow }).RedLock("job").With(atLeast(hold)))
		began := slow.Now()
		require.NoError(t, lease.Release(t.Context()))
		next, err := f.Client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, slow.Now()-began, hold)
		require.NoError(t, next.Release(t.Context()))
	})
}

// A waiter that knows only the TTL looks once a second. So it gets the lock late, if the rest is shorter than that.
func TestWaiterLearnsTheRestOfAMinHold(t *testing.T) {
	for held := 100 * time.Millisecond; held < 3*time.Second; held += 170 * time.Millisecond {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			const hold = 3 * time.Second
			began := f.Clock.Now()
			lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(atLeast(hold)))
			wait := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
			time.Sleep(held)
			require.NoError(t, lease.Release(t.Context()))
			<-wait.Done
			require.NoError(t, wait.Err)
			late := f.Clock.Now() - began - hold
			require.GreaterOrEqual(t, late, time.Duration(0))
			if hold-held > 1200*time.Millisecond {
				require.Less(t, late, 200*time.Millisecond, "released after %v", held)
			}
			require.Less(t, late, 1200*time.Millisecond, "released after %v", held)
			require.NoError(t, wait.Lease.Release(t.Context()))
		})
	}
}

func TestMinHoldDoesNotDelayALaterRelease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job").With(atLeast(5 * time.Second))
		for _, held := range []time.Duration{5 * time.Second, time.Minute} {
			lease := fleet.MustAcquire(t, lock)
			time.Sleep(held)
			require.NoError(t, lease.Release(t.Context()))
			f.RequireNoKeys()
		}
	})
}

// The last of all nested leases decides when the lease is released. The first grant decides when the
// MinHold has passed.
func TestMinHoldOfNestedLeases(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock := client.RedLock("job").With(atLeast(5 * time.Second))
		outer := fleet.MustAcquire(t, lock)
		time.Sleep(2 * time.Second)
		inner, err := lock.TryAcquire(outer.Context())
		require.NoError(t, err)
		require.NoError(t, outer.Release(t.Context()))
		require.NoError(t, inner.Err(), "the inner lease still holds the lock")
		require.NoError(t, inner.Release(t.Context()))
		wait := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
		time.Sleep(3*time.Second - 1)
		require.True(t, wait.Waits())
		time.Sleep(100 * time.Millisecond) // for the drift
		require.NoError(t, wait.Has().Release(t.Context()))
	})
}

// A node that has lost its memory grants nothing for MaxTTL and MaxClockSkew. That is longer than any MinHold, so no loss
// of memory that nodes notice ends a MinHold early.
func TestMinHoldOutlivesTheMemoryOfTheNodes(t *testing.T) {
	for _, forgetful := range [][]int{{0}, {0, 1}, {0, 1, 2}} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			const hold = 9800 * time.Millisecond
			client := f.Client()
			began := f.Clock.Now()
			lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: time.Second, MinHold: hold}))
			require.NoError(t, lease.Release(t.Context()))
			require.NoError(t, client.Close(t.Context()))
			for _, i := range forgetful {
				f.Nodes[i].Flush()
			}
			next, err := f.Client().RedLock("job").Acquire(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, f.Clock.Now()-began, hold)
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

// The hooks report one end of the lease, at the release, and nothing after it.
func TestHooksOfMinHold(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var ended []quorumlock.EndedEvent
		renewals := 0
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.Ended = func(e quorumlock.EndedEvent) { ended = append(ended, e) }
			cfg.Hooks.Renewed = func(quorumlock.RenewalEvent) { renewals++ }
			cfg.Hooks.RenewalFailed = func(quorumlock.RenewalEvent) { renewals++ }
			cfg.Hooks.LossFound = func(quorumlock.LossFoundEvent) { t.Error("a loss was reported") }
			cfg.Hooks.BackingChanged = func(quorumlock.BackingEvent) { t.Error("a change of the backing was reported") }
		})
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: 3 * time.Second, MinHold: 9 * time.Second}))
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, lease.Release(t.Context()))
		f.Stop(2)
		time.Sleep(time.Minute)
		fleet.Settle()
		require.Len(t, ended, 1)
		require.Equal(t, 500*time.Millisecond, ended[0].Held)
		require.ErrorIs(t, ended[0].Err, quorumlock.ErrReleased)
		require.Zero(t, renewals)
	})
}

// Too few nodes answer the release. They keep the lock for its TTL, unless they are told of the rest before that.
func TestReleaseBeforeMinHoldIsRetried(t *testing.T) {
	const hold, ttl = 2 * time.Second, 10 * time.Second
	for _, back := range []bool{true, false} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			client, wires := f.SpiedClient()
			began := f.Clock.Now()
			lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: ttl, MinHold: hold}))
			wires[0].Severed.Store(true)
			wires[1].Severed.Store(true)
			require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrNoQuorum)
			time.Sleep(time.Second)
			wires[0].Severed.Store(!back)
			next, err := f.Client().RedLock("job").Acquire(t.Context())
			require.NoError(t, err)
			took := f.Clock.Now() - began
			require.GreaterOrEqual(t, took, hold)
			require.Equal(t, back, took < 2*hold+2*time.Second, took)
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

// A lock with a MinHold that was deleted by hand is found to be lost at its release, as any other.
func TestReleaseBeforeMinHoldFindsALoss(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(atLeast(5*time.Second)))
		f.Free("job", lease.Owner(), 0, 1)
		require.Equal(t, quorumlock.LossGone, fleet.LossOf(t, lease.Release(t.Context())).Cause)
	})
}

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

// A lease that waives its MinHold frees the lock with its release, for waiters too.
func TestWaiveMinHold(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, other := f.Client(), f.Client().RedLock("job")
		lease := fleet.MustAcquire(t, client.RedLock("job").With(atLeast(5*time.Second)))
		wait := fleet.StartAcquire(t.Context(), t, other)
		time.Sleep(100 * time.Millisecond)
		lease.WaiveMinHold()
		require.NoError(t, lease.Err(), "the lease goes on")
		require.True(t, wait.Waits())
		took := f.Elapsed(func() {
			require.NoError(t, lease.Release(t.Context()))
			<-wait.Done
		})
		require.NoError(t, wait.Err)
		require.Less(t, took, 100*time.Millisecond, "the release wakes the waiter")
		require.NoError(t, wait.Lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A lease that was released keeps its MinHold. A later call changes nothing.
func TestWaiveMinHoldAfterRelease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(atLeast(5*time.Second)))
		require.NoError(t, lease.Release(t.Context()))
		lease.WaiveMinHold()
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrReleased)
		require.ErrorIs(t, fleet.MustBeRefused(t, f.Client().RedLock("job")), quorumlock.ErrHeld)
	})
}

// Only the outer lease decides about its MinHold.
func TestWaiveMinHoldOfANestedLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RedLock("job").With(atLeast(5 * time.Second))
		outer := fleet.MustAcquire(t, lock)
		inner, err := lock.TryAcquire(outer.Context())
		require.NoError(t, err)
		inner.WaiveMinHold()
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, outer.Release(t.Context()))
		require.ErrorIs(t, fleet.MustBeRefused(t, f.Client().RedLock("job")), quorumlock.ErrHeld)
	})
}

func TestWaiveMinHoldOfAJointLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		joint, err := quorumlock.Join(c.RedLock("a").With(atLeast(5*time.Second)), c.RedLock("b").With(atLeast(time.Second))).TryAcquire(t.Context())
		require.NoError(t, err)
		for _, part := range joint.Leases() {
			part.WaiveMinHold()
		}
		require.NoError(t, joint.Release(t.Context()))
		fleet.Settle()
		f.RequireNoKeys()
	})
}

// The holder that had waited leaves the queues when its lease ends, also where the nodes keep the lock for a while.
func TestEndedLeaseLeavesTheQueues(t *testing.T) {
	for how, end := range map[string]func(*testing.T, *quorumlock.Lease) error{
		"before its MinHold": func(t *testing.T, l *quorumlock.Lease) error { return l.Release(t.Context()) },
		"detached":           func(_ *testing.T, l *quorumlock.Lease) error { return detach(l) },
	} {
		t.Run(how, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				before := fleet.MustAcquire(t, f.Client().RedLock("job"))
				lock := f.Client().RedLock("job").With(quorumlock.LockOptions{TTL: 3 * time.Second, MinHold: 9 * time.Second})
				wait := fleet.StartAcquire(t.Context(), t, lock)
				time.Sleep(2 * time.Second)
				require.True(t, wait.Waits())
				require.Equal(t, 3, f.Waiters())
				require.NoError(t, before.Release(t.Context()))
				<-wait.Done
				require.NoError(t, wait.Err)
				time.Sleep(1500 * time.Millisecond) // a renewal has reached all nodes
				require.NoError(t, end(t, wait.Lease))
				fleet.Settle()
				require.Zero(t, f.Waiters())
			})
		})
	}
}
