// Package waiting tests how callers wait for locks: queues on the nodes, wake-ups, fairness,
// hand-overs.
package waiting_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestFormerHolderHasNothingAfterHandover(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		job := c.RedLock("job")
		before, err := job.TryAcquire(t.Context())
		require.NoError(t, err)
		var first *quorumlock.Lease
		took := fleet.StartAcquire(t.Context(), t, job)
		type sight struct{ err, cause, ctx error }
		seen := make(chan sight, 1)
		var next *quorumlock.Lease
		go func() {
			next, _ = job.Acquire(t.Context())
			seen <- sight{first.Err(), context.Cause(first.Context()), first.Context().Err()}
		}()
		fleet.Settle()
		require.NoError(t, before.Release(t.Context()))
		first = took.Has()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, first.Release(t.Context()))
		saw := <-seen
		require.ErrorIs(t, saw.err, quorumlock.ErrReleased)
		require.ErrorIs(t, saw.cause, quorumlock.ErrReleased)
		require.ErrorIs(t, saw.ctx, context.Canceled)

		require.Equal(t, first.Token()+1, next.Token())
		require.Equal(t, first.Owner(), next.Owner(), "the owner on the nodes stays the same")
		require.NoError(t, next.Err())
		for range 2 {
			require.ErrorIs(t, first.Release(t.Context()), quorumlock.ErrReleased)
			require.ErrorIs(t, first.Extend(t.Context()), quorumlock.ErrReleased)
			require.ErrorIs(t, first.Err(), quorumlock.ErrReleased)
			require.Zero(t, first.Remaining())
			have, want := first.Backing()
			require.Equal(t, []int{0, 5}, []int{have, want})
			token, ok := job.Token(first.Context())
			require.True(t, ok)
			require.Equal(t, first.Token(), token)
			time.Sleep(time.Second)
			require.NoError(t, next.Err())
		}
		token, ok := job.Token(next.Context())
		require.True(t, ok)
		require.Equal(t, next.Token(), token)
		have, _ := next.Backing()
		require.Equal(t, 5, have)
		require.NoError(t, next.Release(t.Context()))
		f.RequireNoKeys()
	})
}

func TestLastNestedLeaseHandsOver(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		job := f.Client().RedLock("job")
		line := fleet.LineUp(t, job, job)
		outer := line[0].Has()
		inner, err := job.Acquire(outer.Context())
		require.NoError(t, err)
		require.NoError(t, outer.Release(t.Context()))
		require.True(t, line[1].Waits())
		require.NoError(t, inner.Err())
		require.NoError(t, inner.Release(t.Context()))
		next := line[1].Has()
		require.Equal(t, inner.Token()+1, next.Token())
		require.ErrorIs(t, inner.Err(), quorumlock.ErrReleased)

		for _, old := range []*quorumlock.Lease{outer, inner} {
			_, err = job.Acquire(old.Context())
			require.ErrorIs(t, err, quorumlock.ErrReleased, "the context of the lease has ended")
			ctx := context.WithoutCancel(old.Context())
			_, err = job.TryAcquire(ctx)
			require.ErrorIs(t, err, quorumlock.ErrHeld, "a former holder's context does not hold the lock")
			waits := fleet.StartAcquire(ctx, t, job)
			require.True(t, waits.Waits())
			nested, err := job.Acquire(next.Context())
			require.NoError(t, err)
			require.NoError(t, nested.Release(t.Context()))
			require.NoError(t, next.Release(t.Context()))
			next = waits.Has()
		}
	})
}

func TestHandedOverLeaseRenews(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		job := f.Client().RedLock("job")
		line := fleet.LineUp(t, job, job)
		require.NoError(t, line[0].Has().Release(t.Context()))
		lease := line[1].Has()
		for range 20 {
			time.Sleep(quorumlock.DefaultTTL / 2)
			require.NoError(t, lease.Err())
			require.Greater(t, lease.Remaining(), quorumlock.DefaultTTL/2)
			require.Equal(t, 5, f.Keys())
		}
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, quorumlock.DefaultTTL-decision.Drift(quorumlock.DefaultTTL), lease.Remaining())
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

func TestHandedOverLeaseIsLost(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		job := f.Client().RedLock("job")
		line := fleet.LineUp(t, job, job)
		require.NoError(t, line[0].Has().Release(t.Context()))
		lease := line[1].Has()
		time.Sleep(4 * time.Second)
		f.Stop(0, 1, 2)
		left := lease.Remaining()
		require.Equal(t, left, f.Elapsed(func() { <-lease.Context().Done() }))
		var lost *quorumlock.LostError
		require.ErrorAs(t, context.Cause(lease.Context()), &lost)
		require.Equal(t, lease.Owner(), lost.Owner)
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
		f.Start(0, 1, 2)
	})
}

// MaxHold applies to each holder, and counts from the hand-over to this holder.
func TestHoldLimitCountsFromHandover(t *testing.T) {
	for _, c := range []struct{ first, next time.Duration }{
		{0, 2 * time.Second},
		{2 * time.Second, 0},
		{3 * time.Second, time.Second},
		{time.Second, 3 * time.Second},
		{time.Second, time.Second},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				job := f.Client().RedLock("job")
				line := fleet.LineUp(t, job.With(quorumlock.LockOptions{MaxHold: c.first}), job.With(quorumlock.LockOptions{MaxHold: c.next}))
				first := line[0].Has()
				time.Sleep(50 * time.Millisecond)
				require.NoError(t, first.Release(t.Context()))
				lease := line[1].Has()
				require.Equal(t, first.Owner(), lease.Owner())
				if c.next == 0 {
					time.Sleep(time.Minute)
					require.NoError(t, lease.Err())
					return
				}
				require.Equal(t, c.next, lease.Remaining())
				require.Equal(t, c.next, f.Elapsed(func() { <-lease.Context().Done() }))
				require.ErrorIs(t, lease.Err(), quorumlock.ErrHoldLimit)
				require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrHoldLimit)
				f.RequireNoKeys()
			})
		})
	}
}

// Each hand-over gives a larger token. This holds even if a minority of nodes loses its memory, and renewals heal the
// lock there.
func TestTokensGrowAcrossHandovers(t *testing.T) {
	for _, lost := range [][]int{nil, {0}, {0, 1}, {3, 4}} {
		for _, wait := range []time.Duration{0, 5 * time.Second, 15 * time.Second} {
			t.Run(fmt.Sprint(lost, wait), func(t *testing.T) {
				fleet.ForEachLoss(t, 5, func(t *testing.T, f *fleet.Fleet, lose func(i int)) {
					job := f.Client().RedLock("job")
					r := &fleet.Referee{T: t}
					line := fleet.LineUp(t, job, job, job, job, job)
					r.Grant(line[0].Has())
					for i := range 4 {
						require.NoError(t, line[i].Has().Release(t.Context()))
						r.Grant(line[i+1].Has())
						require.Equal(t, line[0].Has().Token()+uint64(i+1), line[i+1].Has().Token())
						if i == 1 {
							for _, n := range lost {
								lose(n)
							}
						}
					}
					time.Sleep(wait)
					last := line[4].Has()
					require.NoError(t, last.Release(t.Context()))
					other := f.Client().RedLock("job")
					for range 3 {
						lease, err := other.Acquire(t.Context())
						require.NoError(t, err)
						r.Grant(lease)
						require.NoError(t, lease.Release(t.Context()))
					}
				})
			})
		}
	}
}

// A waiter of another client gets the lock when a hand-over limit is reached.
func TestOtherClientsGetTurnsAfterHandoverLimit(t *testing.T) {
	for _, bound := range []quorumlock.Handover{{MaxCount: 3}, {MaxTime: 20 * time.Millisecond}} {
		t.Run(fmt.Sprintf("%+v", bound), func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				c := f.Client(func(cfg *quorumlock.Config) { cfg.Handover = bound })
				other := f.Client()
				locks := make([]*quorumlock.Lock, 30)
				for i := range locks {
					locks[i] = c.RedLock("job")
				}
				line := fleet.LineUp(t, locks...)
				waits := fleet.StartAcquire(t.Context(), t, other.RedLock("job"))
				served := 0
				for waits.Waits() {
					time.Sleep(5 * time.Millisecond)
					require.NoError(t, line[served].Has().Release(t.Context()))
					served++
				}
				require.Equal(t, 4, served)
				require.True(t, line[served].Waits())
				require.NoError(t, waits.Has().Release(t.Context()))
				_ = line[served].Has()
			})
		})
	}
}

// A lease is not handed over if hand-over is off, or if holder and waiter differ in options that matter.
func TestHandoverNeedsMatchingOptions(t *testing.T) {
	type options = quorumlock.LockOptions
	for _, c := range []struct {
		name        string
		first, next options
		change      func(*quorumlock.Config)
	}{
		{name: "turned off", change: func(cfg *quorumlock.Config) { cfg.Handover.Off = true }},
		{name: "a holder with NoHandover", first: options{NoHandover: true}},
		{name: "a waiter with NoHandover", next: options{NoHandover: true}},
		{name: "a fixed holder", first: options{Fixed: true}},
		{name: "a fixed waiter", next: options{Fixed: true}},
		{name: "a holder with a shorter TTL", first: options{TTL: 9 * time.Second}},
		{name: "a waiter with a shorter TTL", next: options{TTL: 9 * time.Second}},
		{name: "a waiter with a stricter rule", next: options{Rule: quorum.All()}},
		{name: "a holder with a stricter rule", first: options{Rule: quorum.All()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				handed := false
				changes := []func(*quorumlock.Config){func(cfg *quorumlock.Config) {
					cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) { handed = handed || e.HandedOver }
				}}
				if c.change != nil {
					changes = append(changes, c.change)
				}
				job := f.Client(changes...).RedLock("job")
				r := &fleet.Referee{T: t}
				before := fleet.MustAcquire(t, job)
				owners := make(map[string]bool)
				var wg sync.WaitGroup
				for _, o := range []options{c.first, c.next} {
					wg.Go(func() {
						lease, err := job.With(o).Acquire(t.Context())
						if !assert.NoError(t, err) { //nolint:testifylint // not the goroutine of the test
							return
						}
						r.Grant(lease)
						owners[lease.Owner()] = true
						time.Sleep(time.Millisecond)
						assert.NoError(t, lease.Release(t.Context()))
					})
					fleet.Settle()
				}
				r.Grant(before)
				require.NoError(t, before.Release(t.Context()))
				require.Less(t, f.Elapsed(wg.Wait), time.Second)
				fleet.Settle()
				require.False(t, handed)
				require.Len(t, owners, 2)
				f.RequireNoKeys()
			})
		})
	}
}

// A spinning waiter accepts a hand-over.
func TestSpinningWaiterAcceptsHandover(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		job := f.Client().RedLock("job").With(quorumlock.LockOptions{Spin: true})
		line := fleet.LineUp(t, job, job)
		require.NoError(t, line[0].Has().Release(t.Context()))
		require.Equal(t, line[0].Has().Token()+1, line[1].Has().Token())
	})
}

// A client does not hand over a lease that has ended, or that expires soon.
func TestNoHandoverOfEndedOrExpiringLease(t *testing.T) {
	long := func(cfg *quorumlock.Config) { cfg.Handover.MaxTime = time.Hour }
	t.Run("lost", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client(long).RedLock("job")
			line := fleet.LineUp(t, job, job)
			first := line[0].Has()
			f.Stop(0, 1)
			<-first.Context().Done()
			require.ErrorIs(t, first.Release(t.Context()), quorumlock.ErrLost)
			require.True(t, line[1].Waits())
			f.Start(0, 1)
			time.Sleep(3 * time.Second)
			require.NotEqual(t, first.Owner(), line[1].Has().Owner())
			require.Greater(t, line[1].Has().Token(), first.Token())
		})
	})
	t.Run("expires soon", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client(long).RedLock("job")
			line := fleet.LineUp(t, job, job)
			first := line[0].Has()
			f.Pause(0, 1)
			time.Sleep(quorumlock.DefaultTTL/2 + time.Second)
			require.NoError(t, first.Err())
			require.ErrorIs(t, first.Release(t.Context()), quorumlock.ErrNoQuorum, "the release was sent to the nodes")
			require.True(t, line[1].Waits())
			f.Resume(0, 1)
			time.Sleep(3 * time.Second)
			require.NotEqual(t, first.Owner(), line[1].Has().Owner())
		})
	})
	t.Run("hold limit reached", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client(long).RedLock("job").With(quorumlock.LockOptions{MaxHold: 50 * time.Millisecond})
			line := fleet.LineUp(t, job, job)
			first := line[0].Has()
			<-first.Context().Done()
			next := line[1].Has()
			require.NotEqual(t, first.Owner(), next.Owner())
			require.ErrorIs(t, first.Release(t.Context()), quorumlock.ErrHoldLimit)
			require.NoError(t, next.Err(), "a late release by the first holder does not end the lease of the next")
			require.Equal(t, 50*time.Millisecond, next.Remaining())
		})
	})
	t.Run("released by force", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client(long).RedLock("job")
			line := fleet.LineUp(t, job, job, job)
			_, err := job.ForceRelease(t.Context())
			require.NoError(t, err)
			first := line[0].Has()
			<-first.Context().Done()
			require.ErrorIs(t, first.Err(), quorumlock.ErrLost)
			next := line[1].Has()
			require.NotEqual(t, first.Owner(), next.Owner())
			require.NoError(t, next.Release(t.Context()))
			require.Equal(t, next.Token()+1, line[2].Has().Token())
		})
	})
	t.Run("release already sent", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client().RedLock("job")
			lease, err := job.Acquire(t.Context())
			require.NoError(t, err)
			fleet.Settle()
			f.Pause(0, 1, 2)
			go func() { _ = lease.Release(context.Background()) }()
			fleet.Settle()
			waits := fleet.StartAcquire(t.Context(), t, job)
			require.True(t, waits.Waits())
			f.Resume(0, 1, 2)
			require.NotEqual(t, lease.Owner(), waits.Has().Owner())
		})
	})
}

// A waiter is cancelled at the instant of a hand-over to it. It either returns the lease, or an error and the next
// waiter gets the lease.
func TestCancelAtTheInstantOfHandover(t *testing.T) {
	had := 0
	for range 300 {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client().RedLock("job")
			r := &fleet.Referee{T: t}
			before, err := job.TryAcquire(t.Context())
			require.NoError(t, err)
			first := fleet.StartAcquire(t.Context(), t, job)
			ctx, cancel := context.WithCancel(t.Context())
			second := fleet.StartAcquire(ctx, t, job)
			third := fleet.StartAcquire(t.Context(), t, job)
			require.NoError(t, before.Release(t.Context()))
			r.Grant(first.Has())

			go cancel()
			require.NoError(t, first.Has().Release(t.Context()))
			if <-second.Done; second.Err == nil {
				had++
				require.True(t, third.Waits())
				r.Grant(second.Lease)
				require.Equal(t, first.Lease.Token()+1, second.Lease.Token())
				require.NoError(t, second.Lease.Release(ctx))
			} else {
				require.ErrorIs(t, second.Err, context.Canceled)
			}
			r.Grant(third.Has())
			require.Equal(t, first.Lease.Owner(), third.Lease.Owner())
			require.NoError(t, third.Lease.Release(t.Context()))
			f.RequireNoKeys()
		})
	}
	t.Logf("the cancelled waiter got the lease %d times of 300", had)
}

// A client is closed while its waiters hand a lease over to each other. It leaves no keys behind.
func TestCloseDuringHandovers(t *testing.T) {
	for i := range 40 {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			c := f.Client()
			r := &fleet.Referee{T: t}
			var users sync.WaitGroup
			for range 4 {
				users.Go(func() {
					for {
						lease, err := c.RedLock("job").Acquire(t.Context())
						if err != nil {
							assert.ErrorIs(t, err, quorumlock.ErrClosed)
							return
						}
						// The user holds the lease here, unless the client is closed.
						if lease.Err() == nil {
							r.Grant(lease)
						}
						time.Sleep(100 * time.Microsecond)
						if err := lease.Release(t.Context()); err != nil {
							assert.ErrorIs(t, err, quorumlock.ErrClosed)
						}
					}
				})
			}
			time.Sleep(time.Millisecond + time.Duration(i)*25*time.Microsecond)
			require.NoError(t, c.Close(t.Context()))
			users.Wait()
			f.RequireNoKeys()
			lease, err := f.Client().RedLock("job").Acquire(t.Context())
			require.NoError(t, err)
			require.Greater(t, lease.Token(), r.Token())
		})
	}
}

func TestHooksReportHandoversInOrder(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var story []string
		c := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) {
				story = append(story, fmt.Sprintf("+%d %t %d %v", e.Token, e.HandedOver, e.Attempts, e.Waited))
			}
			cfg.Hooks.Ended = func(e quorumlock.EndedEvent) {
				story = append(story, fmt.Sprintf("-%d %v %v", e.Token, e.Held, e.Err))
			}
		})
		job := c.RedLock("job")
		line := fleet.LineUp(t, job, job, job)
		fleet.Settle()
		story = nil
		var want []string
		for i, a := range line {
			token := a.Has().Token()
			if i > 0 {
				want = append(want, fmt.Sprintf("+%d true 0 %v", token, time.Duration(i)*7*time.Millisecond))
			}
			time.Sleep(7 * time.Millisecond)
			want = append(want, fmt.Sprintf("-%d 7ms %v", token, quorumlock.ErrReleased))
			require.NoError(t, a.Lease.Release(t.Context()))
		}
		f.RequireNoKeys()
		require.Equal(t, want, story)
	})
}

// ValidUntil of a released lease is when it was released. It does not change with the renewals of the lease that it was
// handed over to.
func TestValidityOfReleasedLeaseIsFrozen(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		job := f.Client().RedLock("job")
		line := fleet.LineUp(t, job, job)
		first := line[0].Has()
		released := f.Clock.Wall()
		require.NoError(t, first.Release(t.Context()))
		next := line[1].Has()
		require.Equal(t, released.UnixMilli(), first.ValidUntil().UnixMilli())
		time.Sleep(time.Minute)
		require.Equal(t, released.UnixMilli(), first.ValidUntil().UnixMilli())
		released = f.Clock.Wall()
		require.NoError(t, next.Release(t.Context()))
		require.Equal(t, released.UnixMilli(), next.ValidUntil().UnixMilli())
	})
}
