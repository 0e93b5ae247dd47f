package realtest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/witness"
	"github.com/quorumlock/quorumlock/node"
)

// realPermits acquires permits, which must succeed.
func realPermits(t testing.TB, s *quorumlock.Semaphore, n int) *quorumlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := s.Acquire(ctx, n)
	require.NoError(t, err, "the permits could not be acquired")
	return lease
}

// An acquisition of any number of permits is one script on each node, and so is a release.
func TestRealPermitCommandsAreCounted(t *testing.T) {
	c := startCluster(t, 5)
	s := c.client(undisturbed).Semaphore("jobs", 100)
	ran := 0
	each := func(scripts int, operate func()) {
		operate()
		ran += scripts
		for i := range c.servers {
			eventually(t, soon, func() bool { return c.calls(i) >= ran }, "node %d ran the script", i)
			require.Equal(t, ran, c.calls(i), "scripts on node %d", i)
		}
	}
	for round, n := range []int{1, 1, 7, 64} {
		scripts := 1
		if round == 0 {
			scripts = 2 // A server must load each script once.
		}
		var lease *quorumlock.Lease
		each(scripts, func() { lease = realPermits(t, s, n) })
		each(scripts, func() { require.NoError(t, lease.Extend(t.Context())) })
		each(scripts, func() { require.NoError(t, lease.Release(t.Context())) })
	}
	c.noKeys()
}

// Many clients contend while one node at a time hangs. They never hold more permits than exist,
// and no slot has two holders.
func TestRealSemaphore(t *testing.T) {
	t.Parallel()
	const p, clients, each, ttl = 3, 4, 3, time.Second
	const enough, enoughPauses, span = 500, 8, 30 * time.Second
	c := startCluster(t, 5)
	l := witness.OfPermits(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var wg sync.WaitGroup
	for range clients {
		client := c.client(withDefaultTimeouts(ttl))
		for range each {
			wg.Go(func() {
				for ctx.Err() == nil {
					lease, err := client.Semaphore("jobs", p).Acquire(ctx, 1+rand.IntN(2))
					if err != nil {
						assert.ErrorIs(t, err, ctx.Err(), "Acquire may fail only at the end of the test")
						return
					}
					l.Enter(lease)
					select {
					case <-time.After(time.Duration(rand.Int64N(int64(2 * time.Millisecond)))):
					case <-ctx.Done():
					}
					l.Leave(lease)
					_ = lease.Release(ctx) // A paused node may not confirm it. The client repeats it later.
				}
			})
		}
	}
	began := time.Now()
	pauses := c.pauseInTurn(ctx, func(pauses int) bool {
		return !*longForm && pauses >= enoughPauses && l.Grants() >= enough
	})
	cancel()
	wg.Wait()
	t.Logf("%d grants in %v, with %d pauses", l.Grants(), time.Since(began), pauses)
	require.Greater(t, l.Grants(), 20)
	full := realPermits(t, c.client(withTTL(ttl)).Semaphore("jobs", p), p)
	require.NoError(t, full.Release(t.Context()))
	c.noKeys()
}

// A release wakes a waiter at once. Waiters poll rarely, and leave no keys.
func TestRealPermitWaitersAreWoken(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	full := realPermits(t, c.client().Semaphore("jobs", 8), 8)
	var attempts atomic.Int64
	waits := c.client(func(cfg *quorumlock.Config) {
		cfg.Hooks.AttemptFailed = func(e quorumlock.AttemptFailedEvent) {
			if errors.Is(e.Err, quorumlock.ErrHeld) { // Other failures are due to slow nodes, and are retried.
				attempts.Add(1)
			}
		}
	}).Semaphore("jobs", 8)
	got, ctx := make(chan *quorumlock.Lease, 2), withDeadline(t)
	for _, n := range []int{3, 5} {
		go func() {
			if lease, err := waits.Acquire(ctx, n); assert.NoError(t, err) {
				got <- lease
			}
		}()
	}
	for i := range c.servers { // A waiter asks a few times until it is in all queues.
		queue := "quorumlock:queue::" + node.PoolName("jobs")
		eventually(t, atMost, func() bool { return c.number(i, "ZCARD", queue) == 2 }, "both waiters are in the queue of node %d", i)
	}
	before, began := attempts.Load(), time.Now()
	<-time.After(2 * time.Second)
	asked, span := attempts.Load()-before, time.Since(began)
	require.LessOrEqual(t, float64(asked), 4*span.Seconds(), "each of two waiters polls about once a second")
	require.NoError(t, full.Release(t.Context()))
	first, second := in(t, got, "one waiter has its permits"), in(t, got, "the other waiter has its permits")
	require.Len(t, append(first.Slots(), second.Slots()...), 8)
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, second.Release(t.Context()))
	c.noKeys()
}

// Two of five servers fail and come back empty. Holders keep their permits, and the library
// restores them.
func TestRealPermitsSurviveLossOfAMinority(t *testing.T) {
	t.Parallel()
	const ttl = patientTTL
	c := startCluster(t, 5)
	s := c.client(withMaxTTL(ttl)).Semaphore("jobs", 2)
	held := realPermits(t, s, 1)
	c.kill(0, 1)
	other := c.client(withMaxTTL(ttl)).Semaphore("jobs", 2)
	second := realPermits(t, other, 1)
	_, err := other.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	c.restart(0, 1)
	eventually(t, 4*ttl, func() bool { return c.recovering(0) == 0 && c.recovering(1) == 0 }, "the nodes have recovered")
	backedByAll(t, held, 4*ttl)
	_, err = other.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	require.NoError(t, held.Err())
	require.NoError(t, second.Err())
	for i := range c.servers {
		require.Equal(t, held.Owner(), c.owner(i, node.SlotName(node.PoolName("jobs"), held.Slots()[0])))
	}
}

// The nodes store the number of permits, so it applies to all clients.
func TestRealSetPermits(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	s := c.client().Semaphore("jobs", 1)
	held := realPermits(t, s, 1)
	_, err := s.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	require.NoError(t, s.SetPermits(t.Context(), 10))
	rest := realPermits(t, c.client().Semaphore("jobs", 1), 9)
	n, err := s.Available(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, rest.Release(t.Context()))
	require.NoError(t, s.SetPermits(t.Context(), 1))
	_, err = c.client().Semaphore("jobs", 10).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	require.NoError(t, held.Release(t.Context()))
	for i := range c.servers {
		require.Equal(t, "1", c.command(i, "HGET", node.PoolName("jobs"), "size"))
	}
}

// The number of permits of one semaphore does not become a permit of another one.
func TestRealSemaphoresWithOneHashTag(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	client := c.client()
	for _, name := range []string{"{tenant}:0", "{tenant}:1"} {
		require.NoError(t, client.Semaphore(name, 1).SetPermits(t.Context(), 5))
	}
	held := realPermits(t, client.Semaphore("{tenant}", 2), 2)
	require.Len(t, held.Slots(), 2)
	n, err := client.Semaphore("{tenant}:0", 1).Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, n)
}
