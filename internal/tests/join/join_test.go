// Package join tests joint locks.
package join_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func TestJoin(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 1)
		c, d := f.Client(), g.Client()
		a, b, x := c.RedLock("a"), c.MultiLock("b", "c").With(quorumlock.LockOptions{Fixed: true}), d.RedLock("a")
		lease, err := quorumlock.Join(x, b, a).Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Err())
		for _, lock := range []*quorumlock.Lock{a, b, x, c.RedLock("b"), c.RedLock("c")} {
			_, err := lock.TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld, lock.Names())
			nested, err := lock.TryAcquire(lease.Context())
			require.NoError(t, err, lock.Names())
			token, ok := lock.Token(lease.Context())
			require.True(t, ok)
			require.Equal(t, nested.Token(), token)
			require.NoError(t, nested.Release(t.Context()))
		}
		_, ok := d.RedLock("b").Token(lease.Context())
		require.False(t, ok)
		require.NoError(t, lease.Release(t.Context()))
		require.ErrorIs(t, lease.Err(), quorumlock.ErrReleased)
		require.ErrorIs(t, context.Cause(lease.Context()), quorumlock.ErrReleased)
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrReleased)
		f.RequireNoKeys()
		g.RequireNoKeys()
	})
}

// An attempt that cannot acquire all locks leaves none of them held, whichever lock is denied.
func TestJoinIsAllOrNothing(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 3)
		c, d := f.Client(), g.Client()
		locks := []quorumlock.Joinable{
			c.RedLock("a"), c.MultiLock("b", "c"), d.RedLock("a"), d.RedLock("d").With(quorumlock.LockOptions{Fixed: true}),
		}
		for i, other := range []*quorumlock.Lock{
			f.Client().RedLock("a"), f.Client().RedLock("b"), f.Client().RedLock("c"), g.Client().RedLock("a"), g.Client().RedLock("d"),
		} {
			held, err := other.Acquire(t.Context())
			require.NoError(t, err)
			fleet.Settle()
			before := f.Keys() + g.Keys()
			_, err = quorumlock.Join(locks...).TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld, "%d", i)
			fleet.Settle()
			require.Equal(t, before, f.Keys()+g.Keys(), "%d: TryAcquire left keys", i)

			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err = quorumlock.Join(locks...).Acquire(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, quorumlock.ErrHeld)
			cancel()
			fleet.Settle()
			require.Equal(t, before, f.Keys()+g.Keys(), "%d: Acquire left keys", i)
			require.NoError(t, held.Release(t.Context()))
		}
		lease, err := quorumlock.Join(locks...).TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
		g.RequireNoKeys()
	})
}

// A context that ends during an attempt leaves no lock held.
func TestCancelledJoinLeavesNoKeys(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 3)
		c, d := f.Client(), g.Client()
		g.Pause(0, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("cancelled by the test")
		done := make(chan error, 1)
		go func() {
			_, err := quorumlock.Join(c.RedLock("a"), d.RedLock("b")).Acquire(ctx)
			done <- err
		}()
		fleet.Settle()
		require.Equal(t, 3, f.Keys(), "the first lock is held")
		cancel(cause)
		require.ErrorIs(t, <-done, cause)
		f.RequireNoKeys()
		g.Resume(0, 1)
		time.Sleep(time.Minute)
		g.RequireNoKeys()
	})
}

// Clients that join the same locks in different orders do not deadlock, and exclude each other.
func TestJoinsDoNotDeadlock(t *testing.T) {
	for seed := range uint64(5) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			g := fleet.Another(t, 3)
			inside := make(map[string]int)
			var mu sync.Mutex
			use := func(keys []string, by int) {
				mu.Lock()
				defer mu.Unlock()
				for _, key := range keys {
					if inside[key] += by; inside[key] > 1 {
						t.Errorf("seed %d: two holders of %s", seed, key)
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var wg sync.WaitGroup
			for i := range 12 {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				clients := map[string]*quorumlock.Client{"f": f.Client(), "g": g.Client()}
				wg.Go(func() {
					for range 8 {
						var locks []quorumlock.Joinable
						var keys []string
						for _, at := range random.Perm(6) {
							set, name := []string{"f", "g"}[at%2], []string{"a", "b", "c"}[at/2]
							if random.IntN(3) == 0 {
								continue
							}
							lock := clients[set].RedLock(name)
							if random.IntN(2) == 0 {
								lock = lock.With(quorumlock.LockOptions{NoHandover: true})
							}
							locks, keys = append(locks, lock), append(keys, set+name)
						}
						if len(locks) == 0 {
							continue
						}
						err := quorumlock.Join(locks...).Do(ctx, func(ctx context.Context) error {
							use(keys, 1)
							defer use(keys, -1)
							time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
							return ctx.Err()
						})
						if err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
					}
				})
			}
			wg.Wait()
			f.RequireNoKeys()
			g.RequireNoKeys()
		})
	}
}

// MultiLocks that overlap are split into names, so that all clients acquire names in the same order.
func TestJoinedMultiLocksDoNotDeadlock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(_ *testing.T, f *fleet.Fleet) {
		fixed := quorumlock.LockOptions{Fixed: true}
		joining(f, 10, 10, func(c *quorumlock.Client, i, _ int) *quorumlock.Joined {
			if i%2 == 0 {
				return quorumlock.Join(c.RedLock("c"), c.MultiLock("b", "d").With(fixed))
			}
			return quorumlock.Join(c.MultiLock("a", "c").With(fixed), c.RedLock("b"))
		})
	})
}

// joining lets several clients acquire and release joint locks several times, concurrently. Every call succeeds, and no
// keys are left.
func joining(f *fleet.Fleet, clients, times int, joined func(c *quorumlock.Client, i, k int) *quorumlock.Joined) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Hour)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		c := f.Client()
		all.Go(func() {
			for k := range times {
				err := joined(c, i, k).Do(ctx, func(ctx context.Context) error {
					time.Sleep(10 * time.Millisecond)
					return ctx.Err()
				})
				if err != nil {
					f.T.Error(err)
				}
			}
		})
	}
	all.Wait()
	f.RequireNoKeys()
}

// The loss of one lock ends the joint lease with the same error, and releases the other locks.
func TestLossOfOneLockEndsJointLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 3)
		lease, err := quorumlock.Join(f.Client().RedLock("a"), g.Client().RedLock("b")).Acquire(t.Context())
		require.NoError(t, err)
		g.Stop(0, 1)
		<-lease.Context().Done()
		var lost *quorumlock.LostError
		require.ErrorAs(t, context.Cause(lease.Context()), &lost)
		require.Equal(t, []string{"b"}, lost.Names)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
		f.RequireNoKeys()
		g.Start(0, 1)
	})
}

// One lock is lost while the client waits for the other. The client then acquires all locks again.
func TestJoinReacquiresLockLostWhileWaiting(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		held, err := f.Client().RedLock("b").Acquire(t.Context())
		require.NoError(t, err)
		done := make(chan *quorumlock.JointLease, 1)
		go func() {
			lease, err := quorumlock.Join(c.RedLock("b"), c.RedLock("a").With(quorumlock.LockOptions{MaxHold: time.Minute})).Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			done <- lease
		}()
		time.Sleep(time.Second)
		_, err = f.Client().RedLock("a").ForceRelease(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Minute) // The first lock has passed its hold limit meanwhile.
		require.NoError(t, held.Release(t.Context()))
		lease := <-done
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A lock with a short MaxHold ends again and again while the next one is held. Acquire takes it some 40 times, instead of
// 5,000.
func TestJoinPausesAfterALoss(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		held, taken := fleet.MustAcquire(t, f.Client().RedLock("b")), 0
		c := f.Client(func(cfg *quorumlock.Config) { cfg.Hooks.Acquired = func(quorumlock.AcquiredEvent) { taken++ } })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := quorumlock.Join(c.RedLock("a").With(quorumlock.LockOptions{MaxHold: time.Millisecond}), c.RedLock("b")).Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, taken, 100)
		require.NoError(t, held.Release(t.Context()))
		fleet.Settle()
		f.RequireNoKeys()
	})
}

// A lock is lost while the next one is held, and the pause before a new beginning is long. Close ends it.
func TestCloseEndsTheWaitOfAJoin(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fleet.MustAcquire(t, f.Client().RedLock("b"))
		c := f.Client(func(cfg *quorumlock.Config) { cfg.RetryMin, cfg.RetryMax = 9*time.Second, 9*time.Second })
		ended := make(chan error, 1)
		go func() {
			_, err := quorumlock.Join(c.RedLock("a").With(quorumlock.LockOptions{MaxHold: time.Second}), c.RedLock("b")).Acquire(context.Background())
			ended <- err
		}()
		time.Sleep(1500 * time.Millisecond)
		began := f.Clock.Now()
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, <-ended, quorumlock.ErrClosed)
		require.Zero(t, f.Clock.Now()-began)
	})
}

// Locks with different bounds of an outage are taken one after the other, so each keeps its own.
func TestJoinedLocksKeepTheirMaxOutage(t *testing.T) {
	for _, bounded := range []string{"a", "b"} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			before := fleet.MustAcquire(t, f.Client().RedLock("b"))
			c := f.Client()
			locks := map[string]*quorumlock.Lock{"a": c.RedLock("a"), "b": c.RedLock("b")}
			locks[bounded] = locks[bounded].With(quorumlock.LockOptions{MaxOutage: -1})
			done := make(chan error)
			go func() {
				_, err := quorumlock.Join(locks["a"], locks["b"]).Acquire(t.Context())
				done <- err
			}()
			time.Sleep(time.Second)
			f.Stop(1, 2)
			time.Sleep(3 * time.Second) // shorter than the lease of a lasts
			f.Start(1, 2)
			_ = before.Release(t.Context())
			if err := <-done; bounded == "b" {
				require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestJoinDo(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		j := quorumlock.Join(c.RedLock("a"), c.RedLock("b").With(quorumlock.LockOptions{MaxHold: time.Second}))
		failure := errors.New("failed")
		require.ErrorIs(t, j.Do(t.Context(), func(context.Context) error { return failure }), failure)
		err := j.Do(t.Context(), func(ctx context.Context) error {
			return c.RedLock("a").Do(ctx, func(ctx context.Context) error {
				_, ok := c.RedLock("b").Token(ctx)
				require.True(t, ok)
				<-ctx.Done()
				return ctx.Err()
			})
		})
		require.ErrorIs(t, err, quorumlock.ErrHoldLimit)
		f.RequireNoKeys()
	})
}

func TestInvalidJoins(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		for _, tc := range []struct {
			locks []quorumlock.Joinable
			want  string
		}{
			{nil, "nothing to join"},
			{[]quorumlock.Joinable{c.RedLock("a"), nil}, "lock 2 is nil"},
			{[]quorumlock.Joinable{c.RedLock("a"), (*quorumlock.Lock)(nil)}, "lock 2 is nil"},
			{[]quorumlock.Joinable{c.RedLock("a"), c.RedLock("")}, "a name is empty"},
			{[]quorumlock.Joinable{c.RedLock("a"), c.RedLock("b"), c.RedLock("a")}, `lock "a" is joined with itself`},
			{[]quorumlock.Joinable{c.MultiLock("a", "b"), c.RedLock("b")}, `lock "b" is joined with itself`},
			{[]quorumlock.Joinable{c.RedLock("a"), f.Client().RedLock("a")}, `lock "a" is joined with itself`},
		} {
			j := quorumlock.Join(tc.locks...)
			_, err1 := j.Acquire(t.Context())
			_, err2 := j.TryAcquire(t.Context())
			for _, err := range []error{err1, err2, j.Do(t.Context(), func(context.Context) error { return nil })} {
				require.ErrorIs(t, err, quorumlock.ErrInvalid)
				require.ErrorContains(t, err, tc.want)
			}
		}
		var zero quorumlock.Joined
		_, err := zero.Acquire(t.Context())
		require.EqualError(t, err, "quorumlock: nothing to join")
		for _, do := range []func(context.Context, func(context.Context) error) error{
			c.RedLock("a").Do,
			quorumlock.Join(c.RedLock("a")).Do,
			func(ctx context.Context, fn func(context.Context) error) error {
				return c.Semaphore("a", 1).Do(ctx, 1, fn)
			},
		} {
			require.EqualError(t, do(t.Context(), nil), "quorumlock: the function is nil")
		}
		f.RequireNoKeys()
		_, err = quorumlock.Join(c.RedLock("a")).Acquire(nil) //nolint:staticcheck // the test needs a nil context
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		require.NoError(t, c.Close(t.Context()))
		_, err = quorumlock.Join(c.RedLock("a"), c.RedLock("b")).Acquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrClosed)
	})
}

// Close of one client ends the joint lease, and releases the locks of the other client.
func TestCloseOfOneClientEndsJointLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 3)
		c := g.Client()
		lease, err := quorumlock.Join(f.Client().RedLock("a"), c.RedLock("b")).Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), quorumlock.ErrClosed)
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrClosed)
		f.RequireNoKeys()
		g.RequireNoKeys()
	})
}

// A joint lease that ends releases its other locks without a goroutine of its own, which could outlive its client.
func TestLostJointLeaseLeavesNoGoroutine(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 3)
		c := g.Client()
		lease, err := quorumlock.Join(f.Client().RedLock("a"), c.RedLock("b")).Acquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		f.Pause(fleet.FirstNodes(3)...)
		require.NoError(t, c.Close(t.Context()))
		fleet.Settle()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		require.NotContains(t, string(stacks), "(*JointLease)")
		require.ErrorIs(t, lease.Err(), quorumlock.ErrClosed)
		f.Resume(fleet.FirstNodes(3)...)
	})
}

// Two joint leases share locks, which they joined in different orders. Both leases and both clients are ended
// concurrently.
func TestConcurrentEndsOfJointLeases(t *testing.T) {
	for range 50 {
		fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
			g := fleet.Another(t, 1)
			c, d := f.Client(), g.Client()
			a, b := c.RedLock("a"), d.RedLock("b")
			outer, err := quorumlock.Join(a, b).Acquire(t.Context())
			require.NoError(t, err)
			inner, err := quorumlock.Join(b, c.RedLock("c"), a).Acquire(outer.Context())
			require.NoError(t, err)
			var all sync.WaitGroup
			for _, end := range []func(context.Context) error{c.Close, d.Close, outer.Release, inner.Release} {
				all.Go(func() { _ = end(t.Context()) })
			}
			all.Wait()
			require.Error(t, outer.Err())
			require.Error(t, inner.Err())
			f.RequireNoKeys()
			g.RequireNoKeys()
		})
	}
}

// A caller holds all permits by a joint lease. A further TryAcquire with its context returns ErrOverlap, as the caller
// would wait for itself.
func TestJoinedPermitsInContext(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		s := c.Semaphore("s", 3)
		lease, err := quorumlock.Join(c.RedLock("a"), s.Joinable(3)).Acquire(t.Context())
		require.NoError(t, err)
		slots, token, ok := s.Slots(lease.Context())
		require.True(t, ok)
		require.Equal(t, []int{0, 1, 2}, slots)
		require.Equal(t, lease.Leases()[1].Token(), token)
		_, err = s.TryAcquire(lease.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrOverlap)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// Permits can be joined with locks.
func TestJoinedPermits(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		s, a := c.Semaphore("s", 3), c.RedLock("a")
		permits := s.Joinable(2)
		lease, err := quorumlock.Join(permits, a).Acquire(t.Context())
		require.NoError(t, err)
		_, err = quorumlock.Join(permits, c.RedLock("b")).TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		one, err := quorumlock.Join(s.Joinable(1), c.RedLock("b")).TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, one.Release(t.Context()))
		require.NoError(t, lease.Release(t.Context()))

		for _, tc := range []struct {
			join *quorumlock.Joined
			want string
		}{
			{quorumlock.Join(permits, s.Joinable(1)), `semaphore "s" is joined with itself`},
			{quorumlock.Join(a, s.Joinable(0)), "0"},
			{quorumlock.Join(a, c.Semaphore("", 1).Joinable(1)), "a name is empty"},
		} {
			_, err = tc.join.TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
			require.ErrorContains(t, err, tc.want)
		}

		joining(f, 8, 5, func(c *quorumlock.Client, i, k int) *quorumlock.Joined {
			locks := []quorumlock.Joinable{c.Semaphore("s", 3).Joinable(1 + i%3), c.RedLock("a"), c.RedLock("z")}
			return quorumlock.Join(locks[(i+k)%3], locks[(i+k+1+i%2)%3])
		})
	})
}

// A joined read lock stays a read lock, and the locks that are joined with it stay exclusive.
func TestJoinedReaders(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		one, two := f.Client(), f.Client()
		alone := quorumlock.LockOptions{NoHandover: true} // Now both locks have the same options, as read locks have no hand-over.
		first, err := quorumlock.Join(one.RWLock("a").Read(), one.RedLock("b").With(alone)).Acquire(t.Context())
		require.NoError(t, err)
		second, err := quorumlock.Join(two.RWLock("a").Read(), two.RWLock("c").Read()).TryAcquire(t.Context())
		require.NoError(t, err, "readers share the lock")
		third, err := one.RWLock("a").Read().TryAcquire(t.Context())
		require.NoError(t, err)
		_, err = quorumlock.Join(two.RWLock("a").Write()).TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		_, err = two.RWLock("b").Read().TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld, "this lock is held exclusively")
		_, err = quorumlock.Join(one.RWLock("x").Read(), one.RWLock("x").Write()).TryAcquire(t.Context())
		require.ErrorContains(t, err, `lock "x" is joined with itself`)
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, second.Release(t.Context()))
		require.NoError(t, third.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A Join that fails has worked under none of its locks, so it releases them at once.
func TestMinHoldOfJoinedLocks(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const hold = 5 * time.Second
		c, other := f.Client(), f.Client()
		a, b := c.RedLock("a").With(quorumlock.LockOptions{MinHold: hold}), c.RedLock("b")
		held := fleet.MustAcquire(t, other.RedLock("b"))
		_, err := quorumlock.Join(a, b).TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = quorumlock.Join(a, b).Acquire(ctx)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		fleet.AcquireAndRelease(t, other.RedLock("a"))

		// A lease that the context holds already keeps its MinHold.
		outer := fleet.MustAcquire(t, a)
		ctx, cancel = context.WithTimeout(outer.Context(), time.Second)
		defer cancel()
		_, err = quorumlock.Join(a, b).Acquire(ctx)
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		require.NoError(t, outer.Release(t.Context()))
		require.ErrorIs(t, fleet.MustBeRefused(t, other.RedLock("a")), quorumlock.ErrHeld)
		time.Sleep(hold + 100*time.Millisecond)
		require.NoError(t, held.Release(t.Context()))

		joint, err := quorumlock.Join(a, b).TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, joint.Release(t.Context()))
		fleet.AcquireAndRelease(t, other.RedLock("b"))
		require.ErrorIs(t, fleet.MustBeRefused(t, other.RedLock("a")), quorumlock.ErrHeld)
		time.Sleep(hold + 100*time.Millisecond)
		fleet.AcquireAndRelease(t, other.RedLock("a"))
		f.RequireNoKeys()

		// Each lock has its own MinHold.
		joint, err = quorumlock.Join(a, c.RedLock("b").With(quorumlock.LockOptions{MinHold: hold / 2})).TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, joint.Release(t.Context()))
		require.ErrorIs(t, fleet.MustBeRefused(t, other.RedLock("b")), quorumlock.ErrHeld)
		time.Sleep(hold/2 + 100*time.Millisecond)
		fleet.AcquireAndRelease(t, other.RedLock("b"))
		require.ErrorIs(t, fleet.MustBeRefused(t, other.RedLock("a")), quorumlock.ErrHeld)
		time.Sleep(hold/2 + 100*time.Millisecond)
		fleet.AcquireAndRelease(t, other.RedLock("a"))
	})
}

// A part of a joint lease that is handed over ends all of it.
func TestJointLeaseEndsWithAPartThatIsHandedOver(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		a, b := c.RedLock("a"), c.RedLock("b").With(quorumlock.LockOptions{MaxHold: time.Minute})
		first := fleet.MustAcquire(t, f.Client().RedLock("a"))
		joint, next := make(chan *quorumlock.JointLease, 1), make(chan *quorumlock.Lease, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			l, err := quorumlock.Join(a, b).Acquire(t.Context())
			assert.NoError(t, err)
			joint <- l
		})
		synctest.Wait()
		wg.Go(func() {
			l, err := a.Acquire(t.Context())
			assert.NoError(t, err)
			next <- l
		})
		synctest.Wait()
		require.NoError(t, first.Release(t.Context()))
		j := <-joint
		part := j.Leases()[0]
		require.Equal(t, []string{"a"}, part.Names())
		require.NoError(t, part.Release(t.Context()))
		passed := <-next
		require.Equal(t, part.Owner(), passed.Owner(), "the lease was handed over")
		require.ErrorIs(t, j.Err(), quorumlock.ErrReleased)
		_ = j.Release(t.Context())
		require.NoError(t, fleet.MustAcquire(t, f.Client().RedLock("b")).Release(t.Context()))
		require.NoError(t, passed.Release(t.Context()))
		wg.Wait()
	})
}

// A join loses a lock just before its deadline, and is still releasing the others at the deadline. Its error is the
// deadline's, as for a single lock.
func TestJoinThatReleasesAtItsDeadlineReportsTheDeadline(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		g := fleet.Another(t, 3)
		c, d := f.Client(), g.Client()
		held := fleet.MustAcquire(t, f.Client().RedLock("c"))
		time.AfterFunc(time.Second/2, func() { g.Pause(0, 1, 2) }) // so the release of "b" takes the timeout of its nodes
		ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
		defer cancel()
		brief := c.RedLock("a").With(quorumlock.LockOptions{MaxHold: time.Second})
		_, err := quorumlock.Join(brief, d.RedLock("b"), c.RedLock("c")).Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		g.Resume(0, 1, 2)
		require.NoError(t, held.Release(t.Context()))
	})
}
