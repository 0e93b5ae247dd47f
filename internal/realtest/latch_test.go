package realtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestRealLatchCommandsAreCounted requires one script on each node for an uncontended operation.
func TestRealLatchCommandsAreCounted(t *testing.T) {
	c := startCluster(t, 3)
	client, ctx := c.client(undisturbed), withDeadline(t)
	ran := 0
	each := func(scripts int, what string, operate func() error) {
		require.NoError(t, operate(), what)
		ran += scripts
		for i := range c.servers {
			eventually(t, soon, func() bool { return c.calls(i) >= ran }, "node %[2]d ran the script for %[1]s", what, i)
			require.Equal(t, ran, c.calls(i), "scripts on node %d up to %s", i, what)
		}
	}
	cycle := func(scripts int) {
		l := client.Latch("a")
		each(scripts, "set", func() error { return l.Set(ctx, 2) })
		each(1, "count down", func() error { return l.CountDown(ctx, "x") })
		each(1, "count down", func() error { return l.CountDown(ctx, "y") })
		each(1, "look", func() error { _, err := l.Count(ctx); return err })
		each(1, "await", func() error { return l.Await(ctx) })
		each(scripts, "delete", func() error { return l.Delete(ctx) })
	}
	cycle(2) // A server must load each script once.
	cycle(1)
}

// withDeadline returns a context that bounds operations that must end.
func withDeadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestRealLatch(t *testing.T) {
	c := startCluster(t, 3)
	ctx := withDeadline(t)
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		l := c.client().Latch("a")
		wg.Go(func() {
			for _, call := range []func() error{
				func() error { return l.Set(ctx, n) },
				func() error { return l.CountDown(ctx, fmt.Sprint(i)) },
				func() error { return l.CountDown(ctx, fmt.Sprint(i)) },
				func() error { return l.Await(ctx) },
			} {
				if err := call(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	l := c.client().Latch("a")
	left(t, l, 0)
	require.NoError(t, l.Delete(ctx))
	_, err := l.Count(ctx)
	require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
	for i := range c.servers {
		require.Positive(t, c.number(i, "PTTL", "quorumlock:latch:{a}"), "a key has no TTL")
	}
}

// A latch of the largest size is counted down by many callers of one client, by some of them twice, while
// others wait. Extra ids do no harm.
func TestRealLatchOfTheLargestSize(t *testing.T) {
	c := startCluster(t, 3)
	ctx := withDeadline(t)
	const n = quorumlock.MaxLatchCount
	l := c.client(patiently).Latch("a")
	require.NoError(t, l.Set(ctx, n))
	waiters := []<-chan error{awaiting(ctx, c.client(patiently).Latch("a")), awaiting(ctx, c.client(patiently).Latch("a"))}
	clients := []*quorumlock.Client{c.client(patiently)}
	countDown(t, clients, "a", n-1)
	left(t, l, 1)
	countDown(t, clients, "a", n+5)
	for _, done := range waiters {
		require.NoError(t, in(t, done, "Await returns"))
	}
	left(t, l, 0)
	for i := range c.servers {
		require.LessOrEqual(t, c.number(i, "ZCARD", "quorumlock:latched:{a}"), n)
	}
}

// whole reports whether a server has its complete latch back after a loss.
func (c *cluster) whole(i int, latch string) bool {
	c.t.Helper()
	lost := c.command(i, "HGET", "quorumlock:node", "until")
	return lost != "(nil)" && c.command(i, "HGET", "quorumlock:latch:{"+latch+"}", "whole") == lost
}

// The clients restore the state of a server that forgot it. Another server may then fail.
func TestRealLatchSurvivesALoss(t *testing.T) {
	c := startCluster(t, 3)
	ctx := withDeadline(t)
	latch := func() *quorumlock.Latch {
		return c.client(withMaxTTL(3*time.Second), patiently).Latch("a")
	}
	l := latch()
	require.NoError(t, l.Set(ctx, 3))
	done := awaiting(ctx, latch())
	require.NoError(t, l.CountDown(ctx, "x"))
	c.command(1, "FLUSHALL")
	// It is not enough that the server knows the latch again. A count-down after the loss can set it there
	// without the earlier count-downs. Only the waiter restores these.
	eventually(t, soon, func() bool { return c.whole(1, "a") }, "the waiter has restored the latch on the server")
	require.Equal(t, 1, c.number(1, "ZCARD", "quorumlock:latched:{a}"))
	c.servers[0].Pause()
	require.NoError(t, l.CountDown(ctx, "y"))
	left(t, l, 1)
	c.servers[0].Resume()
	require.NoError(t, l.CountDown(ctx, "z"))
	require.NoError(t, in(t, done, "Await returns"))
	for i := range c.servers {
		eventually(t, soon, func() bool { return c.number(i, "ZCARD", "quorumlock:latched:{a}") == 3 }, "every node has all count-downs in the end")
		for _, key := range []string{"quorumlock:latch:{a}", "quorumlock:latched:{a}"} {
			require.Positive(t, c.number(i, "PTTL", key), "every key has a TTL")
		}
	}
}

// left requires the given count on the latch.
func left(t *testing.T, l *quorumlock.Latch, want int) {
	t.Helper()
	got, err := l.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// awaiting waits for a latch in the background and sends the result to the channel.
func awaiting(ctx context.Context, l *quorumlock.Latch) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Await(ctx) }()
	return done
}

// A waiter for a latch that is cancelled removes its key from the nodes. The key would take seconds to
// expire.
func TestRealCancelledLatchWaiterLeavesNoTrace(t *testing.T) {
	c := startCluster(t, 3)
	other := c.client().Latch("ready")
	require.NoError(t, other.Set(t.Context(), 2))
	awaiting := func(i int) int { return c.number(i, "EXISTS", "quorumlock:awaiting:{ready}") }
	everywhere := func() bool { return awaiting(0)+awaiting(1)+awaiting(2) == 3 }
	nowhere := func() bool { return awaiting(0)+awaiting(1)+awaiting(2) == 0 }
	for _, end := range []string{"cancel", "close"} {
		client := c.client()
		waits := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() { done <- client.Latch("ready").Await(ctx) }()
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := waits(ctx), waits(t.Context())
		eventually(t, soon, everywhere, "every node knows the waiters")
		cancel()
		require.ErrorIs(t, in(t, first, "Await returns"), context.Canceled)
		if end == "close" {
			closeClient(t, client)
			require.ErrorIs(t, in(t, second, "Await returns"), quorumlock.ErrClosed)
		} else {
			require.NoError(t, other.CountDown(t.Context(), "1"))
			require.NoError(t, other.CountDown(t.Context(), "2"))
			require.NoError(t, in(t, second, "the last count-down wakes the other waiter"))
			require.NoError(t, other.Delete(t.Context()))
			require.NoError(t, other.Set(t.Context(), 2))
			// Delete returns when a majority has deleted; the last node may follow later.
			eventually(t, soon, nowhere, "no node knows a waiter")
		}
		for i := range c.servers {
			require.Zero(t, awaiting(i), "%s: node %d", end, i)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	last, done := c.client(), make(chan error, 1)
	go func() { done <- last.Latch("ready").Await(ctx) }()
	eventually(t, soon, everywhere, "every node knows the waiter")
	cancel()
	require.ErrorIs(t, in(t, done, "Await returns"), context.Canceled)
	require.NoError(t, last.Close(t.Context()))
	for i := range c.servers {
		require.Zero(t, awaiting(i), "after a cancellation, node %d", i)
	}
}
