//go:build unix

package realtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// inboxes returns the number of subscribed connections to a server.
func (c *cluster) inboxes(i int) int {
	c.t.Helper()
	return strings.Count(c.command(i, "CLIENT", "LIST", "TYPE", "pubsub"), "id=")
}

// subscribed requires that each server soon has the given number of subscriptions.
func (c *cluster) subscribed(want int, within time.Duration) {
	c.t.Helper()
	for i := range c.servers {
		eventually(c.t, within, func() bool { return c.inboxes(i) == want }, "%d subscriptions on node %d", want, i)
	}
}

// waiting is an Acquire in the background.
type waiting struct {
	lease *quorumlock.Lease
	err   error
	done  chan struct{}
	quit  context.CancelFunc
}

func waitFor(t *testing.T, lock *quorumlock.Lock) *waiting {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	w := &waiting{done: make(chan struct{}), quit: cancel}
	t.Cleanup(func() { cancel(); <-w.done })
	go func() {
		defer close(w.done)
		w.lease, w.err = lock.Acquire(ctx)
	}()
	return w
}

// has waits for the lease of a call that must succeed.
func (w *waiting) has(t *testing.T) *quorumlock.Lease {
	t.Helper()
	in(t, w.done, "the waiter has the lock")
	require.NoError(t, w.err)
	return w.lease
}

// gaveUp waits for the end of a call whose context has ended.
func (w *waiting) gaveUp(t *testing.T) {
	t.Helper()
	w.quit()
	in(t, w.done, "the cancelled waiter returns")
	require.ErrorIs(t, w.err, context.Canceled)
}

func TestRealSpinningNeedsNoSubscription(t *testing.T) {
	c := startCluster(t, 5)
	held := acquire(t, c.client().RedLock("job"))
	c.holds("job", held.Owner())
	tried, left := make(chan struct{}), 3
	client := c.client(func(cfg *quorumlock.Config) {
		cfg.Waiting = quorumlock.WaitSpin
		cfg.Hooks.AttemptFailed = func(quorumlock.AttemptFailedEvent) { // one after another
			if left--; left == 0 {
				close(tried)
			}
		}
	})
	spins := waitFor(t, client.RedLock("job"))
	in(t, tried, "the waiter tries again")
	c.subscribed(0, 0)
	for i := range c.servers {
		require.Equal(t, []string{"job"}, c.locks(i), "a spinning waiter leaves no keys")
	}
	require.NoError(t, held.Release(t.Context()))
	lease := spins.has(t)
	c.subscribed(0, 0)
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()
}

func TestRealIdleSubscriptionsAreClosed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	held := acquire(t, c.client().RedLock("job"))
	client := c.client()
	c.subscribed(0, 0)
	waits := waitFor(t, client.RedLock("job"))
	c.queued(1)
	c.subscribed(1, soon) // The subscriptions open beside the attempt that queues the waiter.
	require.NoError(t, held.Release(t.Context()))
	lease := waits.has(t)
	began := time.Now()
	require.NoError(t, lease.Release(t.Context()))
	c.subscribed(1, 0)                                                         // The client may wait again soon.
	c.subscribed(0, 20*time.Second)                                            // After a while it closes them.
	require.NoError(t, acquire(t, client.RedLock("job")).Release(t.Context())) // The client still works.
	t.Logf("closed after %v", time.Since(began).Round(10*time.Millisecond))
	c.noKeys()
}

func TestRealCloseEndsSubscriptions(t *testing.T) {
	c := startCluster(t, 5)
	held := acquire(t, c.client().RedLock("job"))
	client := c.client()
	waits := waitFor(t, client.RedLock("job"))
	c.queued(1)
	closeClient(t, client)
	in(t, waits.done, "Close ends the wait")
	require.ErrorIs(t, waits.err, quorumlock.ErrClosed)
	c.subscribed(0, soon) // The servers notice the closed connections a moment later.
	c.queued(0)
	require.NoError(t, held.Release(t.Context()))
	c.noKeys()
}

func TestRealCancelledWaitersLeaveTheQueues(t *testing.T) {
	c := startCluster(t, 5)
	lock := func() *quorumlock.Lock { return c.client().RedLock("job") }
	held := acquire(t, lock())
	var all []*waiting
	for i := range 4 {
		all = append(all, waitFor(t, lock()))
		c.queued(i + 1)
	}
	all[0].gaveUp(t) // the first waiter
	all[2].gaveUp(t) // one in the middle of the queue
	c.queued(2)
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, all[1].has(t).Release(t.Context()))
	require.NoError(t, all[3].has(t).Release(t.Context()))
	c.noKeys()
}

// A waiter is cancelled just as it is woken. It must pass the wake on to the next waiter.
func TestRealCancelledWokenWaiterPassesWakeOn(t *testing.T) {
	c := startCluster(t, 5)
	// Long timeouts make the test independent of the load of the machine.
	lock := func() *quorumlock.Lock {
		return c.client(func(cfg *quorumlock.Config) { cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = 3*time.Second, 3*time.Second }).RedLock("job")
	}
	holder, leaver, next := lock(), lock(), lock()
	var longest time.Duration
	won := 0
	for i := range 50 {
		held := acquire(t, holder)
		quits, waits := waitFor(t, leaver), waitFor(t, next)
		c.queued(2)
		began := time.Now()
		released := make(chan error, 1)
		go func() { released <- held.Release(context.Background()) }()
		time.Sleep(time.Duration(i) * 50 * time.Microsecond)
		quits.quit()
		in(t, quits.done, "the cancelled waiter returns")
		if quits.err == nil {
			won++
			require.NoError(t, quits.lease.Release(t.Context()))
			began = time.Now()
		} else {
			require.ErrorIs(t, quits.err, context.Canceled)
		}
		lease := waits.has(t)
		longest = max(longest, time.Since(began))
		require.NoError(t, errors.Join(in(t, released, "Release returns"), lease.Release(t.Context())))
		c.noKeys()
	}
	t.Logf("%d of 50 waiters got the lock before their cancellation; the next waiter had it within %v", won, longest)
}
