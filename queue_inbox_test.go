package quorumlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// mute is a client's way to a node that cannot listen.
type mute struct{ node.Node }

// muted makes a client for which some nodes cannot listen.
func (f *fleet) muted(nodes ...int) *quorumlock.Client {
	return f.client(func(cfg *quorumlock.Config) {
		for _, i := range nodes {
			cfg.Nodes[i] = mute{f.nodes[i]}
		}
	})
}

// untilTaken is how long somebody waits for a lock from the release of it on.
func (f *fleet) untilTaken(before *quorumlock.Lease, a *acquisition) time.Duration {
	f.t.Helper()
	require.True(f.t, a.waits())
	require.NoError(f.t, before.Release(f.t.Context()))
	took := f.elapsed(func() { <-a.done })
	require.NoError(f.t, a.has().Release(f.t.Context()))
	f.noKeys()
	return took
}

// Who waits with nodes that cannot listen is told by the others, as long as they are enough,
// and asks again and again if not.
func TestNodesThatCannotListen(t *testing.T) {
	for _, c := range []struct {
		mute int
		most time.Duration
	}{
		{1, 10 * time.Millisecond},
		{2, 10 * time.Millisecond},
		{3, quorumlockRetryMax},
		{5, quorumlockRetryMax},
	} {
		inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
			for i := range 5 {
				before := held(t, f.client().RedLock("job"))
				waits := acquiring(t.Context(), t, f.muted(upTo(c.mute)...).RedLock("job"))
				time.Sleep(time.Duration(5+i) * 333 * time.Millisecond)
				require.LessOrEqual(t, f.untilTaken(before, waits), c.most, "%d of 5", c.mute)
			}
		})
	}
}

// One who needs all nodes is told by any of them.
func TestOneNodeThatListensIsEnoughForAll(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		before := held(t, f.client().MultiLock("job"))
		waits := acquiring(t.Context(), t, f.muted(0, 1, 2, 3).MultiLock("job"))
		time.Sleep(3333 * time.Millisecond)
		require.LessOrEqual(t, f.untilTaken(before, waits), 10*time.Millisecond)
	})
}

// A wake that is lost without a word costs a second at most.
func TestMessagesThatAreLost(t *testing.T) {
	for _, lost := range []int{1, 4, 5} {
		inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
			before := held(t, f.client().RedLock("job"))
			c, spies := f.spied()
			waits := acquiring(t.Context(), t, c.RedLock("job"))
			time.Sleep(5 * time.Second)
			for _, s := range spies[:lost] {
				s.set(func(s *spy) { s.message = func(node.Message) bool { return false } })
			}
			took := f.untilTaken(before, waits)
			if lost == 5 {
				require.LessOrEqual(t, took, time.Second)
			} else {
				require.LessOrEqual(t, took, 100*time.Millisecond)
			}
		})
	}
}

// An inbox that was lost and is made again may have missed something, so the lock is asked
// for at once.
func TestAnInboxThatReconnects(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		c, spies := f.spied()
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		time.Sleep(5 * time.Second)
		for _, s := range spies {
			s.set(func(s *spy) { s.message = func(m node.Message) bool { return m.Kind == node.Resubscribed } })
		}
		require.NoError(t, before.Release(t.Context()))
		time.Sleep(5 * time.Millisecond)
		require.True(t, waits.waits())
		for _, s := range spies[:3] {
			s.Stop()
			s.Start()
		}
		_ = waits.has()
		for _, s := range spies {
			require.Equal(t, 1, s.listens(), "it is made again by itself")
		}
	})
}

// While nodes are gone and come back, somebody who waits stays in the queues, and is woken
// by them again.
func TestNodesThatComeAndGoWhileSomebodyWaits(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		for i := range 5 {
			before := held(t, f.client().RedLock("job"))
			waits := acquiring(t.Context(), t, f.client().RedLock("job"))
			f.stop(i, (i+1)%5)
			time.Sleep(3 * time.Second)
			f.start(i, (i+1)%5)
			time.Sleep(3 * time.Second)
			require.Equal(t, 5, f.waiters())
			require.LessOrEqual(t, f.untilTaken(before, waits), 10*time.Millisecond)
			time.Sleep(time.Second)
		}
	})
}

// A node that could not listen at first does so later.
func TestAnInboxThatFailsAtFirst(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		f.stop(2)
		c, spies := f.spied()
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		time.Sleep(5 * time.Second)
		require.Greater(t, spies[2].listens(), 1)
		require.LessOrEqual(t, spies[2].listens(), 6, "not all the time")
		f.start(2)
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, f.waiters())
		require.LessOrEqual(t, f.untilTaken(before, waits), 10*time.Millisecond)
	})
}

// Entries are kept up for as long as somebody waits.
func TestEntriesLastAsLongAsTheWait(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		first := acquiring(t.Context(), t, f.client().RedLock("job"))
		for range 300 {
			time.Sleep(101 * time.Millisecond)
			require.Equal(t, 3, f.waiters())
		}
		require.LessOrEqual(t, f.untilTaken(before, first), 10*time.Millisecond)
	})
}

// Subscriptions are given up when nobody has waited for a while, and made again.
func TestSubscriptionsAreGivenUp(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, spies := f.spied()
		for i := range 3 {
			for range 3 {
				before := held(t, f.client().RedLock("job"))
				waits := acquiring(t.Context(), t, c.RedLock("job"))
				require.LessOrEqual(t, f.untilTaken(before, waits), time.Millisecond)
				time.Sleep(8 * time.Second)
			}
			for _, s := range spies {
				require.Equal(t, i+1, s.listens())
			}
			time.Sleep(3 * time.Second)
		}
	})
}

// Spinning needs no subscription, and leaves no entry.
func TestSpinningListensToNobody(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		c, spies := f.spied()
		waits := acquiring(t.Context(), t, c.RedLock("job").With(quorumlock.LockOptions{Waiting: quorumlock.WaitSpin}))
		time.Sleep(5 * time.Second)
		require.Zero(t, f.waiters())
		require.LessOrEqual(t, f.untilTaken(before, waits), quorumlockRetryMax)
		for _, s := range spies {
			require.Zero(t, s.listens())
			require.Zero(t, s.signed())
			require.Greater(t, s.asked(), 5*4)
		}
	})
}

// TryAcquire waits for nobody, and stands in no line.
func TestTryAcquireStandsInNoLine(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c := f.client()
		job := c.RedLock("job")
		line := lined(t, job, job)
		var heldErr *quorumlock.HeldError
		require.Zero(t, f.elapsed(func() { require.ErrorAs(t, refuses(t, job), &heldErr) }))
		require.Equal(t, line[0].has().Owner(), heldErr.Owner)
		require.Zero(t, f.waiters())

		// The lock is free, and waited for by this client only.
		f.pause(0, 1, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := job.TryAcquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.resume(0, 1, 2)
		settled()
		require.NoError(t, line[0].has().Release(t.Context()))
		require.Equal(t, line[0].has().Owner(), line[1].has().Owner(), "nothing has changed for those who wait")
	})
}

// A lock that is free, but left to somebody who was woken, is not taken by one who comes
// later, but for those who spin.
func TestWhoIsWokenHasTheLockForAMoment(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		f.frozen("hung", 1, true, 0, 1, 2)
		require.NoError(t, before.Release(t.Context()))
		settled()
		job := f.client().RedLock("job")
		var heldErr *quorumlock.HeldError
		require.ErrorAs(t, refuses(t, job), &heldErr)
		require.Empty(t, heldErr.Owner)
		require.Equal(t, 50*time.Millisecond, heldErr.TTL)
		settled()
		spin := job.With(quorumlock.LockOptions{Waiting: quorumlock.WaitSpin})
		require.NoError(t, held(t, spin).Release(t.Context()))
		settled()
		time.Sleep(51 * time.Millisecond)
		require.NoError(t, held(t, job).Release(t.Context()))
	})
}

// Who gives up learns what was in the way, and why he gave up.
func TestWhatThoseInTheLineAreTold(t *testing.T) {
	const patience = 100 * time.Millisecond
	gaveUp := errors.New("enough")
	givesUp := func(t *testing.T, l *quorumlock.Lock) error {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), patience, gaveUp)
		defer cancel()
		_, err := l.Acquire(ctx)
		require.ErrorIs(t, err, gaveUp)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return err
	}
	t.Run("a holder of the same client", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client().RedLock("job")
			lease := held(t, job)
			for range 2 {
				var heldErr *quorumlock.HeldError
				require.ErrorAs(t, givesUp(t, job), &heldErr)
				require.Equal(t, lease.Owner(), heldErr.Owner)
				require.Equal(t, "job", heldErr.Name)
				require.Equal(t, lease.Remaining(), heldErr.TTL)
			}
		})
	})
	t.Run("what the first was told", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			lease := held(t, f.client().RedLock("job"))
			job := f.client().RedLock("job")
			first := acquiring(t.Context(), t, job)
			var heldErr *quorumlock.HeldError
			require.ErrorAs(t, givesUp(t, job), &heldErr)
			require.Equal(t, lease.Owner(), heldErr.Owner)
			require.ErrorAs(t, givesUp(t, f.client().RedLock("job")), &heldErr)
			require.Equal(t, lease.Owner(), heldErr.Owner)
			require.NoError(t, lease.Release(t.Context()))
			_ = first.has()
		})
	})
	t.Run("no quorum for the first", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client().RedLock("job")
			f.stop(0, 1)
			first := acquiring(t.Context(), t, job)
			time.Sleep(patience)
			err := givesUp(t, job)
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			require.ErrorIs(t, err, node.ErrUnreachable)
			require.NotErrorIs(t, err, quorumlock.ErrHeld)
			f.start(0, 1)
			<-first.done
			_ = first.has()
		})
	})
	t.Run("nobody was asked", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			job := f.client().RedLock("job")
			f.pause(0, 1, 2)
			_ = acquiring(t.Context(), t, job)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := job.Acquire(ctx)
			var noQuorum *quorumlock.NoQuorumError
			require.ErrorAs(t, err, &noQuorum)
			require.Equal(t, 3, noQuorum.Pending)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			f.resume(0, 1, 2)
		})
	})
	t.Run("the client is closed", func(t *testing.T) {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			c := f.client()
			lease := held(t, c.RedLock("job"))
			first, second := acquiring(t.Context(), t, c.RedLock("job")), acquiring(t.Context(), t, c.RedLock("job"))
			other := f.client()
			third := acquiring(t.Context(), t, other.RedLock("job"))
			require.NoError(t, other.Close(t.Context()))
			require.False(t, third.waits())
			require.ErrorIs(t, third.err, quorumlock.ErrClosed)
			require.NoError(t, c.Close(t.Context()))
			for _, a := range []*acquisition{first, second} {
				require.False(t, a.waits())
				require.ErrorIs(t, a.err, quorumlock.ErrClosed)
			}
			require.ErrorIs(t, lease.Err(), quorumlock.ErrClosed)
			f.noKeys()
		})
	})
}
