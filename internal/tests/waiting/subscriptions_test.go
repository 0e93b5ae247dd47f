package waiting_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// muted makes a client that cannot subscribe on some nodes.
func muted(f *fleet.Fleet, nodes ...int) *quorumlock.Client {
	return f.Client(func(cfg *quorumlock.Config) {
		for _, i := range nodes {
			cfg.Nodes[i] = fleet.Deaf{Node: f.Nodes[i]}
		}
	})
}

// untilTaken releases a lock, and returns the time until the waiter has it.
func untilTaken(f *fleet.Fleet, before *quorumlock.Lease, a *fleet.Acquisition) time.Duration {
	f.T.Helper()
	require.True(f.T, a.Waits())
	require.NoError(f.T, before.Release(f.T.Context()))
	took := f.Elapsed(func() { <-a.Done })
	lease := a.Has()
	left := quorumlock.DefaultTTL - decision.Drift(quorumlock.DefaultTTL)
	require.InDelta(f.T, left, lease.Remaining(), float64(10*time.Millisecond), "the TTL counts from the last attempt")
	require.NoError(f.T, lease.Release(f.T.Context()))
	f.RequireNoKeys()
	return took
}

// A waiter cannot subscribe on some nodes. The other nodes wake it if they are a majority. Otherwise the waiter
// polls.
func TestWaiterWithoutSomeSubscriptions(t *testing.T) {
	for _, c := range []struct {
		mute int
		most time.Duration
	}{
		{1, 10 * time.Millisecond},
		{2, 10 * time.Millisecond},
		{3, defaultRetryMax},
		{5, defaultRetryMax},
	} {
		fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
			for i := range 5 {
				before := fleet.MustAcquire(t, f.Client().RedLock("job"))
				waits := fleet.StartAcquire(t.Context(), t, muted(f, fleet.FirstNodes(c.mute)...).RedLock("job"))
				time.Sleep(time.Duration(5+i) * 333 * time.Millisecond)
				require.LessOrEqual(t, untilTaken(f, before, waits), c.most, "%d of 5", c.mute)
			}
		})
	}
}

// A MultiLock waiter is woken by any single node.
func TestOneSubscriptionWakesMultiLockWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().MultiLock("job"))
		waits := fleet.StartAcquire(t.Context(), t, muted(f, 0, 1, 2, 3).MultiLock("job"))
		time.Sleep(3333 * time.Millisecond)
		require.LessOrEqual(t, untilTaken(f, before, waits), 10*time.Millisecond)
	})
}

// A wake that is lost silently delays the waiter by a second at most.
func TestLostWakeCostsASecondAtMost(t *testing.T) {
	for _, lost := range []int{1, 4, 5} {
		fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
			before := fleet.MustAcquire(t, f.Client().RedLock("job"))
			c, spies := f.SpiedClient()
			waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
			time.Sleep(5 * time.Second)
			for _, s := range spies[:lost] {
				s.Set(func(s *fleet.Spy) { s.Message = func(wire.Message) bool { return false } })
			}
			took := untilTaken(f, before, waits)
			if lost == 5 {
				require.LessOrEqual(t, took, time.Second)
			} else {
				require.LessOrEqual(t, took, 100*time.Millisecond)
			}
		})
	}
}

// A subscription that reconnects may have missed a wake, so the waiter asks at once.
func TestWaiterAsksAfterResubscription(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		// The waiter asks at known times, none of them right after the release.
		c, spies := f.SpiedClient(func(cfg *quorumlock.Config) { cfg.Jitter = func() float64 { return 0.5 } })
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		time.Sleep(5 * time.Second)
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.Message = func(m wire.Message) bool { return m.Kind == wire.Resubscribed } })
		}
		require.NoError(t, before.Release(t.Context()))
		time.Sleep(5 * time.Millisecond)
		require.True(t, waits.Waits())
		for _, s := range spies[:3] {
			s.Stop()
			s.Start()
		}
		_ = waits.Has()
		for _, s := range spies {
			require.Equal(t, 1, s.Listens(), "the subscription reconnects by itself")
		}
	})
}

// Nodes go away and come back. A waiter stays in their queues, and they wake it again.
func TestWaiterStaysQueuedWhenNodesComeAndGo(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		for i := range 5 {
			before := fleet.MustAcquire(t, f.Client().RedLock("job"))
			waits := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
			f.Stop(i, (i+1)%5)
			time.Sleep(3 * time.Second)
			f.Start(i, (i+1)%5)
			time.Sleep(3 * time.Second)
			require.Equal(t, 5, f.Waiters())
			require.LessOrEqual(t, untilTaken(f, before, waits), 10*time.Millisecond)
			time.Sleep(time.Second)
		}
	})
}

// A subscription that failed at first is retried, but not all the time.
func TestFailedSubscriptionIsRetried(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		f.Stop(2)
		c, spies := f.SpiedClient()
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		time.Sleep(5 * time.Second)
		require.Greater(t, spies[2].Listens(), 1)
		require.LessOrEqual(t, spies[2].Listens(), 6, "retries must not be frequent")
		f.Start(2)
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, f.Waiters())
		require.LessOrEqual(t, untilTaken(f, before, waits), 10*time.Millisecond)
	})
}

// A client closes its subscriptions after some time without waiters, whatever else it acquires meanwhile, and opens them
// again when a caller waits.
func TestIdleSubscriptionsAreClosed(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		works := func(seconds int) {
			for range seconds {
				require.NoError(t, c.RedLock("other").Do(t.Context(), func(context.Context) error { return nil }))
				time.Sleep(time.Second)
			}
		}
		for i := range 3 {
			for range 3 {
				before := fleet.MustAcquire(t, f.Client().RedLock("job"))
				waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
				require.LessOrEqual(t, untilTaken(f, before, waits), time.Millisecond)
				works(8)
			}
			for _, s := range spies {
				require.Equal(t, i+1, s.Listens())
			}
			works(3)
		}
	})
}

// A spinning waiter opens no subscription, and has no queue entry.
func TestSpinningNeedsNoSubscription(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		waits := fleet.StartAcquire(t.Context(), t, c.RedLock("job").With(quorumlock.LockOptions{Spin: true}))
		time.Sleep(5 * time.Second)
		require.Zero(t, f.Waiters())
		require.LessOrEqual(t, untilTaken(f, before, waits), defaultRetryMax)
		for _, s := range spies {
			require.Zero(t, s.Listens())
			require.Zero(t, s.Entered())
			require.Greater(t, s.Asked(), 5*4)
		}
	})
}

// TryAcquire does not wait, and enters neither the local queue nor the queues of the nodes.
func TestTryAcquireDoesNotQueue(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		job := c.RedLock("job")
		line := fleet.LineUp(t, job, job)
		var heldErr *quorumlock.HeldError
		require.Zero(t, f.Elapsed(func() { require.ErrorAs(t, fleet.MustBeRefused(t, job), &heldErr) }))
		require.Equal(t, line[0].Has().Owner(), heldErr.Owner)
		require.Zero(t, f.Waiters())

		// The nodes hang, so the attempt ends with its context.
		f.Pause(0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := job.TryAcquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.Resume(0, 1, 2)
		fleet.Settle()
		require.NoError(t, line[0].Has().Release(t.Context()))
		require.Equal(t, line[0].Has().Owner(), line[1].Has().Owner(), "TryAcquire changes nothing for the waiters")
	})
}

// A free lock is reserved for the woken waiter for a moment. Only a spinning waiter may take it meanwhile.
func TestFreeLockIsReservedForWokenWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		f.Freeze(time.Minute, "hung", 1, true, 0, 1, 2)
		require.NoError(t, before.Release(t.Context()))
		fleet.Settle()
		job := f.Client().RedLock("job")
		var heldErr *quorumlock.HeldError
		require.ErrorAs(t, fleet.MustBeRefused(t, job), &heldErr)
		require.Empty(t, heldErr.Owner)
		require.Equal(t, 50*time.Millisecond, heldErr.TTL)
		fleet.Settle()
		spin := job.With(quorumlock.LockOptions{Spin: true})
		require.NoError(t, fleet.MustAcquire(t, spin).Release(t.Context()))
		fleet.Settle()
		time.Sleep(51 * time.Millisecond)
		require.NoError(t, fleet.MustAcquire(t, job).Release(t.Context()))
	})
}

// While its subscriptions are being opened, a waiter has no place in the queues. It does not overtake those that have
// one: here a reader joins others that read, with a writer waiting before it.
func TestWaiterDoesNotOvertakeWhileItSubscribes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		reads := fleet.MustAcquire(t, f.Client().RWLock("job").Read())
		writer := fleet.StartAcquire(t.Context(), t, f.Client().RWLock("job").Write())
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 3, f.Waiters())

		c, spies := f.SpiedClient()
		confirm := make(chan struct{})
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.Listening = confirm })
		}
		reader := fleet.StartAcquire(t.Context(), t, c.RWLock("job").Read())
		time.Sleep(500 * time.Millisecond)
		require.True(t, reader.Waits())
		close(confirm)
		time.Sleep(500 * time.Millisecond)
		require.True(t, reader.Waits())

		require.NoError(t, reads.Release(t.Context()))
		require.NoError(t, writer.Has().Release(t.Context()))
		require.NoError(t, reader.Has().Release(t.Context()))
		f.RequireNoKeys()
	})
}

// The first subscription of a waiter for a MultiLock opens early, and the others a little later. Then the waiter
// enters the other queues too. Otherwise users of a RedLock of that name, who need fewer nodes, would overtake it.
func TestMultiLockWaiterEntersAllQueues(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		confirm := make(chan struct{})
		for _, s := range spies[1:] {
			s.Set(func(s *fleet.Spy) { s.Listening = confirm })
		}
		waits := fleet.StartAcquire(t.Context(), t, c.MultiLock("job"))
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 1, f.Waiters())
		close(confirm)
		time.Sleep(defaultRetryMax)
		require.Equal(t, 5, f.Waiters())
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.Has().Release(t.Context()))
		f.RequireNoKeys()
	})
}

// deafOn returns a client that cannot listen to messages of one node, so its waiters cannot queue there. Its requests
// take this long.
func deafOn(f *fleet.Fleet, deaf int, latency time.Duration) *quorumlock.Client {
	return f.Client(func(cfg *quorumlock.Config) {
		for i, nd := range f.Nodes {
			spy := &fleet.Spy{Node: nd, Before: func([]wire.Op) { time.Sleep(latency) }}
			cfg.Nodes[i] = spy
			if i == deaf {
				cfg.Nodes[i] = fleet.Deaf{Node: spy}
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
