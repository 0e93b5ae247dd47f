package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// The first waiter of a local queue is denied, and later acquires the lock. A second waiter that gives up after that
// must not report the stale denial.
func TestErrorOfWaiterIsNotStale(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		old := fleet.MustAcquire(t, f.Client().RedLock("job"))
		job := f.Client().RedLock("job").With(quorumlock.LockOptions{NoHandover: true})
		first := fleet.StartAcquire(t.Context(), t, job)
		require.NoError(t, old.Release(t.Context()))
		_ = first.Has()
		ctx, cancel := context.WithCancel(t.Context())
		second := fleet.StartAcquire(ctx, t, job)
		f.Pause(0, 1, 2)
		go func() { _ = first.Lease.Release(t.Context()) }()
		fleet.Settle() // Wait until the second attempt is in flight.
		cancel()
		<-second.Done
		require.ErrorIs(t, second.Err, quorumlock.ErrNoQuorum)
		require.NotErrorIs(t, second.Err, quorumlock.ErrHeld, "the denial is older than the lease of the first waiter")
		f.Resume(0, 1, 2)
	})
}

// The error of a waiter that gives up names the cause, and the holder or the nodes that blocked it.
func TestErrorsOfWaitersThatGiveUp(t *testing.T) {
	const patience = 2 * time.Second // in which a waiter asks the nodes again
	gaveUp := errors.New("gave up")
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
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client().RedLock("job")
			lease := fleet.MustAcquire(t, job)
			for range 2 {
				var heldErr *quorumlock.HeldError
				require.ErrorAs(t, givesUp(t, job), &heldErr)
				require.Equal(t, lease.Owner(), heldErr.Owner)
				require.Equal(t, "job", heldErr.Name)
				require.Equal(t, lease.Remaining(), heldErr.TTL)
			}
		})
	})
	t.Run("behind a waiter that was denied", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
			job := f.Client().RedLock("job")
			first := fleet.StartAcquire(t.Context(), t, job)
			var heldErr *quorumlock.HeldError
			require.ErrorAs(t, givesUp(t, job), &heldErr)
			require.Equal(t, lease.Owner(), heldErr.Owner)
			err := givesUp(t, f.Client().RedLock("job"))
			require.ErrorAs(t, err, &heldErr)
			require.Equal(t, lease.Owner(), heldErr.Owner)
			require.ErrorIs(t, err, quorumlock.ErrHeld)
			require.ErrorContains(t, err, quorumlock.DescribeOwner(lease.Owner()))
			require.NoError(t, lease.Release(t.Context()))
			_ = first.Has()
		})
	})
	t.Run("behind a waiter without a quorum", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client().RedLock("job")
			f.Stop(0, 1)
			first := fleet.StartAcquire(t.Context(), t, job)
			time.Sleep(patience)
			err := givesUp(t, job)
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			require.ErrorIs(t, err, node.ErrUnreachable)
			require.NotErrorIs(t, err, quorumlock.ErrHeld)
			f.Start(0, 1)
			<-first.Done
			_ = first.Has()
		})
	})
	t.Run("no node has answered", func(t *testing.T) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			job := f.Client().RedLock("job")
			f.Pause(0, 1, 2)
			_ = fleet.StartAcquire(t.Context(), t, job)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := job.Acquire(ctx)
			var noQuorum *quorumlock.NoQuorumError
			require.ErrorAs(t, err, &noQuorum)
			require.Equal(t, 3, noQuorum.Pending)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			f.Resume(0, 1, 2)
		})
	})
}

// Another client holds the lock, and then a node goes out during the wait. With a majority lock, the other nodes prove
// that the lock is held, whichever node answers first. A MultiLock could not be acquired without that node even if the
// holder released it. So its error is that of the last attempt, and the earlier denials are out of date.
func TestErrorOfAWaitDuringWhichANodeGoesOut(t *testing.T) {
	const latency = 5 * time.Millisecond
	for name, goesOut := range map[string]func(f *fleet.Fleet){
		"recovering": func(f *fleet.Fleet) { f.Nodes[0].Flush() },
		"down":       func(f *fleet.Fleet) { f.Stop(0) },
	} {
		for first := range 3 {
			for _, all := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, node %d answers first, MultiLock %v", name, first, all), func(t *testing.T) {
					fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
						lease := fleet.MustAcquire(t, f.Client().MultiLock("job"))
						var attempts []error
						client := f.Client(func(cfg *quorumlock.Config) {
							cfg.Hooks.AttemptFailed = func(e quorumlock.AttemptFailedEvent) { attempts = append(attempts, e.Err) }
							for i, nd := range f.Nodes {
								spy := &fleet.Spy{Node: nd}
								if i != first {
									spy.Muted.Store(int64(latency))
								}
								cfg.Nodes[i] = fleet.Deaf{Node: spy}
							}
						})
						job := client.RedLock("job")
						if all {
							job = client.MultiLock("job")
						}
						time.AfterFunc(500*time.Millisecond, func() { goesOut(f) })
						ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
						defer cancel()
						_, err := job.Acquire(ctx)
						fleet.Settle()
						require.ErrorIs(t, err, context.DeadlineExceeded)
						require.NoError(t, lease.Err(), "the lock was held all the time")
						require.ErrorIs(t, attempts[0], quorumlock.ErrHeld)
						switch {
						case !all:
							require.ErrorIs(t, err, quorumlock.ErrHeld)
						case first == 0:
							require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
							require.NotErrorIs(t, err, quorumlock.ErrHeld)
						}
						if name == "down" {
							f.Start(0)
						}
					})
				})
			}
		}
	}
}
