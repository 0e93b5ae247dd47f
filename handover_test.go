package quorumlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorum"
)

// acquisition is an Acquire under way.
type acquisition struct {
	t     *testing.T
	done  chan struct{}
	lease *quorumlock.Lease
	err   error
}

// acquiring begins to acquire a lock, and returns when it has to wait, or has it.
func acquiring(ctx context.Context, t *testing.T, l *quorumlock.Lock) *acquisition {
	t.Helper()
	a := &acquisition{t: t, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lease, a.err = l.Acquire(ctx)
	}()
	settled()
	return a
}

// has is the lease that it got without any time having passed.
func (a *acquisition) has() *quorumlock.Lease {
	a.t.Helper()
	settled()
	require.False(a.t, a.waits(), "it still waits")
	require.NoError(a.t, a.err)
	return a.lease
}

func (a *acquisition) waits() bool {
	settled()
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// lined has waiters of a client stand in line for a lock, and the first of them have it,
// with those behind it still waiting: what it has, it can hand over.
func lined(t *testing.T, locks ...*quorumlock.Lock) []*acquisition {
	t.Helper()
	before, err := locks[0].TryAcquire(t.Context())
	require.NoError(t, err)
	all := make([]*acquisition, len(locks))
	for i, l := range locks {
		all[i] = acquiring(t.Context(), t, l)
	}
	require.NoError(t, before.Release(t.Context()))
	_ = all[0].has()
	for _, a := range all[1:] {
		require.True(t, a.waits())
	}
	return all
}

// referee sees all grants of a name, and that no two are valid at once, and their tokens
// grow.
type referee struct {
	t      *testing.T
	mu     sync.Mutex
	leases []*quorumlock.Lease
	last   uint64
}

func (r *referee) grant(l *quorumlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, before := range r.leases {
		assert.NotNil(r.t, before.Err(), "two leases at once")           //nolint:testifylint // any goroutine may be here
		assert.NotNil(r.t, before.Context().Err(), "a context lives on") //nolint:testifylint // see above
	}
	assert.Greater(r.t, l.Token(), r.last)
	r.last = l.Token()
	r.leases = append(r.leases[:0], l)
}

func (r *referee) token() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func TestWhoHandsOverHasNothingLeft(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		c := f.client()
		job := c.RedLock("job")
		before, err := job.TryAcquire(t.Context())
		require.NoError(t, err)
		var first *quorumlock.Lease
		took := acquiring(t.Context(), t, job)
		type sight struct{ err, cause, ctx error }
		seen := make(chan sight, 1)
		var next *quorumlock.Lease
		go func() {
			next, _ = job.Acquire(t.Context())
			seen <- sight{first.Err(), context.Cause(first.Context()), first.Context().Err()}
		}()
		settled()
		require.NoError(t, before.Release(t.Context()))
		first = took.has()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, first.Release(t.Context()))
		saw := <-seen
		require.ErrorIs(t, saw.err, quorumlock.ErrReleased)
		require.ErrorIs(t, saw.cause, quorumlock.ErrReleased)
		require.ErrorIs(t, saw.ctx, context.Canceled)

		require.Equal(t, first.Token()+1, next.Token())
		require.Equal(t, first.Owner(), next.Owner(), "nodes know one owner")
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
		f.noKeys()
	})
}

func TestTheLastOfNestedLeasesHandsOver(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		job := f.client().RedLock("job")
		line := lined(t, job, job)
		outer := line[0].has()
		inner, err := job.Acquire(outer.Context())
		require.NoError(t, err)
		require.NoError(t, outer.Release(t.Context()))
		require.True(t, line[1].waits())
		require.NoError(t, inner.Err())
		require.NoError(t, inner.Release(t.Context()))
		next := line[1].has()
		require.Equal(t, inner.Token()+1, next.Token())
		require.ErrorIs(t, inner.Err(), quorumlock.ErrReleased)

		for _, old := range []*quorumlock.Lease{outer, inner} {
			_, err = job.Acquire(old.Context())
			require.ErrorIs(t, err, quorumlock.ErrReleased, "its context is over")
			ctx := context.WithoutCancel(old.Context())
			_, err = job.TryAcquire(ctx)
			require.ErrorIs(t, err, quorumlock.ErrHeld, "it is not held by this context")
			waits := acquiring(ctx, t, job)
			require.True(t, waits.waits())
			nested, err := job.Acquire(next.Context())
			require.NoError(t, err)
			require.NoError(t, nested.Release(t.Context()))
			require.NoError(t, next.Release(t.Context()))
			next = waits.has()
		}
	})
}

// A lease that was handed over is one like any other.

func TestAHandedOverLeaseRenews(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		job := f.client().RedLock("job")
		line := lined(t, job, job)
		require.NoError(t, line[0].has().Release(t.Context()))
		lease := line[1].has()
		for range 20 {
			time.Sleep(quorumlock.DefaultTTL / 2)
			require.NoError(t, lease.Err())
			require.Greater(t, lease.Remaining(), quorumlock.DefaultTTL/2)
			require.Equal(t, 5, f.keys())
		}
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, quorumlock.DefaultTTL-quorum.Drift(quorumlock.DefaultTTL), lease.Remaining())
		require.NoError(t, lease.Release(t.Context()))
		f.noKeys()
	})
}

func TestAHandedOverLeaseIsLost(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		job := f.client().RedLock("job")
		line := lined(t, job, job)
		require.NoError(t, line[0].has().Release(t.Context()))
		lease := line[1].has()
		time.Sleep(4 * time.Second)
		f.stop(0, 1, 2)
		left := lease.Remaining()
		require.Equal(t, left, f.elapsed(func() { <-lease.Context().Done() }))
		var lost *quorumlock.LostError
		require.ErrorAs(t, context.Cause(lease.Context()), &lost)
		require.Equal(t, lease.Owner(), lost.Owner)
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
		f.start(0, 1, 2)
	})
}

func TestAHandedOverLeaseIsSeenAndReleasedByForce(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		job := f.client().RedLock("job")
		line := lined(t, job, job)
		require.NoError(t, line[0].has().Release(t.Context()))
		lease := line[1].has()
		other := f.client().RedLock("job")
		status, err := other.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), status.Holder())
		require.Equal(t, []string{lease.Owner()}, status.Owners())
		_, err = other.ForceRelease(t.Context())
		require.NoError(t, err)
		require.Less(t, f.elapsed(func() { <-lease.Context().Done() }), quorumlock.DefaultTTL/2, "at its next renewal")
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		f.noKeys()
	})
}

// MaxHold is that of whoever has the lease, from when it was handed over.
func TestTheHoldLimitOfAHandedOverLease(t *testing.T) {
	for _, c := range []struct{ first, next time.Duration }{
		{0, 2 * time.Second},
		{2 * time.Second, 0},
		{3 * time.Second, time.Second},
		{time.Second, 3 * time.Second},
		{time.Second, time.Second},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
				job := f.client().RedLock("job")
				line := lined(t, job.With(quorumlock.LockOptions{MaxHold: c.first}), job.With(quorumlock.LockOptions{MaxHold: c.next}))
				first := line[0].has()
				time.Sleep(50 * time.Millisecond)
				require.NoError(t, first.Release(t.Context()))
				lease := line[1].has()
				require.Equal(t, first.Owner(), lease.Owner())
				if c.next == 0 {
					time.Sleep(time.Minute)
					require.NoError(t, lease.Err())
					return
				}
				require.Equal(t, c.next, lease.Remaining())
				require.Equal(t, c.next, f.elapsed(func() { <-lease.Context().Done() }))
				require.ErrorIs(t, lease.Err(), quorumlock.ErrHoldLimit)
				require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrHoldLimit)
				f.noKeys()
			})
		})
	}
}

// Whatever a minority of nodes forgets, and whatever of it renewals put back: who comes
// next has a larger token.
func TestTokensBehindAHandover(t *testing.T) {
	for _, lost := range [][]int{nil, {0}, {0, 1}, {3, 4}} {
		for _, wait := range []time.Duration{0, 5 * time.Second, 15 * time.Second} {
			t.Run(fmt.Sprint(lost, wait), func(t *testing.T) {
				inVirtualTimeByEachLoss(t, 5, func(t *testing.T, f *fleet, lose func(i int)) {
					job := f.client().RedLock("job")
					r := &referee{t: t}
					line := lined(t, job, job, job, job)
					r.grant(line[0].has())
					for i := range 3 {
						require.NoError(t, line[i].has().Release(t.Context()))
						r.grant(line[i+1].has())
						require.Equal(t, line[0].has().Token()+uint64(i+1), line[i+1].has().Token())
						if i == 1 {
							for _, n := range lost {
								lose(n)
							}
						}
					}
					time.Sleep(wait)
					last := line[3].has()
					require.NoError(t, last.Release(t.Context()))
					other := f.client().RedLock("job")
					for range 3 {
						lease, err := other.Acquire(t.Context())
						require.NoError(t, err)
						r.grant(lease)
						require.NoError(t, lease.Release(t.Context()))
					}
				})
			})
		}
	}
}

func TestTheNumberOfHandovers(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		var mu sync.Mutex
		var handed []bool
		c := f.client(func(cfg *quorumlock.Config) {
			cfg.Handover.MaxCount = 3
			cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) {
				mu.Lock()
				defer mu.Unlock()
				handed = append(handed, e.HandedOver)
			}
		})
		locks := make([]*quorumlock.Lock, 9)
		for i := range locks {
			locks[i] = c.RedLock("job")
		}
		r := &referee{t: t}
		for _, a := range lined(t, locks...) {
			r.grant(a.has())
			require.NoError(t, a.lease.Release(t.Context()))
			settled()
		}
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []bool{false, false, true, true, true, false, true, true, true, false}, handed)
	})
}

func TestTheTimeOfHandovers(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c := f.client(func(cfg *quorumlock.Config) { cfg.Handover.MaxTime = 20 * time.Millisecond })
		locks := make([]*quorumlock.Lock, 7)
		for i := range locks {
			locks[i] = c.RedLock("job")
		}
		var owners []string
		for _, a := range lined(t, locks...) {
			owners = append(owners, a.has().Owner())
			time.Sleep(8 * time.Millisecond)
			require.NoError(t, a.lease.Release(t.Context()))
		}
		var rows []int
		for i, owner := range owners {
			if i == 0 || owner != owners[i-1] {
				rows = append(rows, 0)
			}
			rows[len(rows)-1]++
		}
		require.Equal(t, []int{3, 3, 1}, rows, "at 8 and 16 ms, and not at 24")
	})
}

// When the bounds are reached, it is the turn of others.
func TestOthersHaveTheirTurnAfterHandovers(t *testing.T) {
	for _, bound := range []quorumlock.Handover{{MaxCount: 3}, {MaxTime: 20 * time.Millisecond}} {
		t.Run(fmt.Sprintf("%+v", bound), func(t *testing.T) {
			inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
				c := f.client(func(cfg *quorumlock.Config) { cfg.Handover = bound })
				other := f.client()
				locks := make([]*quorumlock.Lock, 30)
				for i := range locks {
					locks[i] = c.RedLock("job")
				}
				line := lined(t, locks...)
				waits := acquiring(t.Context(), t, other.RedLock("job"))
				served := 0
				for waits.waits() {
					time.Sleep(5 * time.Millisecond)
					require.NoError(t, line[served].has().Release(t.Context()))
					served++
				}
				require.Equal(t, 4, served)
				require.True(t, line[served].waits())
				require.NoError(t, waits.has().Release(t.Context()))
				_ = line[served].has()
			})
		})
	}
}

func TestWhatIsNotHandedOver(t *testing.T) {
	type options = quorumlock.LockOptions
	for _, c := range []struct {
		name        string
		first, next options
		change      func(*quorumlock.Config)
	}{
		{name: "turned off", change: func(cfg *quorumlock.Config) { cfg.Handover.Off = true }},
		{name: "fair by default", change: func(cfg *quorumlock.Config) { cfg.Waiting = quorumlock.WaitFair }},
		{name: "a holder that does not", first: options{NoHandover: true}},
		{name: "a waiter that does not", next: options{NoHandover: true}},
		{name: "a fixed holder", first: options{Fixed: true}},
		{name: "a fixed waiter", next: options{Fixed: true}},
		{name: "a fair holder", first: options{Waiting: quorumlock.WaitFair}},
		{name: "a fair waiter", next: options{Waiting: quorumlock.WaitFair}},
		{name: "a longer TTL", first: options{TTL: 9 * time.Second}},
		{name: "a shorter TTL", next: options{TTL: 9 * time.Second}},
		{name: "a stricter rule", next: options{Rule: quorum.All()}},
		{name: "a weaker rule", first: options{Rule: quorum.All()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
				handed := false
				changes := []func(*quorumlock.Config){func(cfg *quorumlock.Config) {
					cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) { handed = handed || e.HandedOver }
				}}
				if c.change != nil {
					changes = append(changes, c.change)
				}
				job := f.client(changes...).RedLock("job")
				r := &referee{t: t}
				before := held(t, job)
				owners := make(map[string]bool)
				var wg sync.WaitGroup
				for _, o := range []options{c.first, c.next} {
					wg.Go(func() {
						lease, err := job.With(o).Acquire(t.Context())
						if !assert.NoError(t, err) { //nolint:testifylint // not the goroutine of the test
							return
						}
						r.grant(lease)
						owners[lease.Owner()] = true
						time.Sleep(time.Millisecond)
						assert.NoError(t, lease.Release(t.Context()))
					})
					settled()
				}
				r.grant(before)
				require.NoError(t, before.Release(t.Context()))
				require.Less(t, f.elapsed(wg.Wait), time.Second)
				settled()
				require.False(t, handed)
				require.Len(t, owners, 2)
				f.noKeys()
			})
		})
	}
}

// A waiter who spins takes what he is given, too.
func TestASpinningWaiterIsHandedALease(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		job := f.client().RedLock("job").With(quorumlock.LockOptions{Waiting: quorumlock.WaitSpin})
		line := lined(t, job, job)
		require.NoError(t, line[0].has().Release(t.Context()))
		require.Equal(t, line[0].has().Token()+1, line[1].has().Token())
	})
}

// A lease is not handed over that is over, for whatever reason, nor one that has not much
// time left.
func TestNothingIsHandedOverTooLate(t *testing.T) {
	long := func(cfg *quorumlock.Config) { cfg.Handover.MaxTime = time.Hour }
	t.Run("lost", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client(long).RedLock("job")
			line := lined(t, job, job)
			first := line[0].has()
			f.stop(0, 1)
			<-first.Context().Done()
			require.ErrorIs(t, first.Release(t.Context()), quorumlock.ErrLost)
			require.True(t, line[1].waits())
			f.start(0, 1)
			time.Sleep(3 * time.Second)
			require.NotEqual(t, first.Owner(), line[1].has().Owner())
			require.Greater(t, line[1].has().Token(), first.Token())
		})
	})
	t.Run("little time left", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client(long).RedLock("job")
			line := lined(t, job, job)
			first := line[0].has()
			f.pause(0, 1)
			time.Sleep(quorumlock.DefaultTTL/2 + time.Second)
			require.NoError(t, first.Err())
			require.ErrorIs(t, first.Release(t.Context()), quorumlock.ErrNoQuorum, "so it was sent")
			require.True(t, line[1].waits())
			f.resume(0, 1)
			time.Sleep(3 * time.Second)
			require.NotEqual(t, first.Owner(), line[1].has().Owner())
		})
	})
	t.Run("its hold limit", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client(long).RedLock("job").With(quorumlock.LockOptions{MaxHold: 50 * time.Millisecond})
			line := lined(t, job, job)
			first := line[0].has()
			<-first.Context().Done()
			next := line[1].has()
			require.NotEqual(t, first.Owner(), next.Owner())
			require.ErrorIs(t, first.Release(t.Context()), quorumlock.ErrHoldLimit)
			require.NoError(t, next.Err(), "that releases nobody else's")
			require.Equal(t, 50*time.Millisecond, next.Remaining())
		})
	})
	t.Run("released by force", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client(long).RedLock("job")
			line := lined(t, job, job, job)
			_, err := job.ForceRelease(t.Context())
			require.NoError(t, err)
			first := line[0].has()
			<-first.Context().Done()
			require.ErrorIs(t, first.Err(), quorumlock.ErrLost)
			next := line[1].has()
			require.NotEqual(t, first.Owner(), next.Owner())
			require.NoError(t, next.Release(t.Context()))
			require.Equal(t, next.Token()+1, line[2].has().Token())
		})
	})
	t.Run("a release that was sent", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client().RedLock("job")
			lease, err := job.Acquire(t.Context())
			require.NoError(t, err)
			settled()
			f.pause(0, 1, 2)
			go func() { _ = lease.Release(context.Background()) }()
			settled()
			waits := acquiring(t.Context(), t, job)
			require.True(t, waits.waits())
			f.resume(0, 1, 2)
			require.NotEqual(t, lease.Owner(), waits.has().Owner())
		})
	})
}

// A waiter that gives up in the instant of a hand-over either has the lease or not, and
// never has it without knowing.
func TestAWaiterGivesUpInTheInstantOfAHandover(t *testing.T) {
	had := 0
	for range 300 {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client().RedLock("job")
			r := &referee{t: t}
			before, err := job.TryAcquire(t.Context())
			require.NoError(t, err)
			first := acquiring(t.Context(), t, job)
			ctx, cancel := context.WithCancel(t.Context())
			second := acquiring(ctx, t, job)
			third := acquiring(t.Context(), t, job)
			require.NoError(t, before.Release(t.Context()))
			r.grant(first.has())

			go cancel()
			require.NoError(t, first.has().Release(t.Context()))
			if <-second.done; second.err == nil {
				had++
				require.True(t, third.waits())
				r.grant(second.lease)
				require.Equal(t, first.lease.Token()+1, second.lease.Token())
				require.NoError(t, second.lease.Release(ctx))
			} else {
				require.ErrorIs(t, second.err, context.Canceled)
			}
			r.grant(third.has())
			require.Equal(t, first.lease.Owner(), third.lease.Owner())
			require.NoError(t, third.lease.Release(t.Context()))
			f.noKeys()
		})
	}
	t.Logf("had it %d times of 300", had)
}

// A client that is closed while its waiters hand a lease around leaves nothing behind.
func TestACloseAmongHandovers(t *testing.T) {
	for i := range 40 {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			c := f.client()
			r := &referee{t: t}
			var users sync.WaitGroup
			for range 4 {
				users.Go(func() {
					for {
						lease, err := c.RedLock("job").Acquire(t.Context())
						if err != nil {
							assert.ErrorIs(t, err, quorumlock.ErrClosed)
							return
						}
						// Whoever is here has it, unless the client is closed.
						if lease.Err() == nil {
							r.grant(lease)
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
			f.noKeys()
			lease, err := f.client().RedLock("job").Acquire(t.Context())
			require.NoError(t, err)
			require.Greater(t, lease.Token(), r.token())
		})
	}
}

func TestHooksTellOfHandoversInOrder(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		var story []string
		c := f.client(func(cfg *quorumlock.Config) {
			cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) {
				story = append(story, fmt.Sprintf("+%d %t %d %v", e.Token, e.HandedOver, e.Attempts, e.Waited))
			}
			cfg.Hooks.Ended = func(e quorumlock.EndedEvent) {
				story = append(story, fmt.Sprintf("-%d %v %v", e.Token, e.Held, e.Err))
			}
		})
		job := c.RedLock("job")
		line := lined(t, job, job, job)
		settled()
		story = nil
		var want []string
		for i, a := range line {
			token := a.has().Token()
			if i > 0 {
				want = append(want, fmt.Sprintf("+%d true 0 %v", token, time.Duration(i)*7*time.Millisecond))
			}
			time.Sleep(7 * time.Millisecond)
			want = append(want, fmt.Sprintf("-%d 7ms %v", token, quorumlock.ErrReleased))
			require.NoError(t, a.lease.Release(t.Context()))
		}
		settled()
		require.Equal(t, want, story)
	})
}

// A waiter may be given a lease in the middle of a Do, which is one like any other there.
func TestDoHandsOver(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c := f.client()
		other := f.client()
		var tokens []uint64
		var wg sync.WaitGroup
		busy := false
		for range 50 {
			wg.Go(func() {
				assert.NoError(t, c.RedLock("job").Do(t.Context(), func(ctx context.Context) error {
					assert.False(t, busy)
					busy = true
					token, _ := c.RedLock("job").Token(ctx)
					tokens = append(tokens, token)
					time.Sleep(time.Millisecond)
					busy = false
					return ctx.Err()
				}))
			})
		}
		wg.Wait()
		require.Len(t, tokens, 50)
		require.IsIncreasing(t, tokens)
		require.Greater(t, use(t, other.RedLock("job")), tokens[49])
		f.noKeys()
	})
}
