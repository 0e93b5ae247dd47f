package realtest_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// The TTL of these tests is 10 s. The keys must be gone long before they would expire.

func TestRealDeniedAttemptsLeaveNoKeys(t *testing.T) {
	c := startCluster(t, 5)
	holder := acquire(t, c.client().RedLock("job"))
	c.holds("job", holder.Owner())

	var losers sync.WaitGroup
	for range 5 {
		lock := c.client().RedLock("job")
		losers.Go(func() {
			for range 20 {
				_, err := lock.TryAcquire(t.Context())
				assert.ErrorIs(t, err, quorumlock.ErrHeld)
			}
		})
	}
	losers.Wait()
	c.holds("job", holder.Owner())
	require.NoError(t, holder.Release(t.Context()))
	c.noKeys()
}

func TestRealSplitVotesLeaveNoKeys(t *testing.T) {
	for _, split := range []struct {
		what   string
		others map[string][]int
	}{
		{"one owner on three", map[string][]int{"x:1": {0, 2, 4}}},
		{"three owners", map[string][]int{"x:1": {0}, "y:1": {2}, "z:1": {4}}},
		{"two owners, 2:2", map[string][]int{"x:1": {0, 1}, "y:1": {2, 3}}},
		{"all taken", map[string][]int{"x:1": {0, 1, 2}, "y:1": {3, 4}}},
	} {
		t.Run(split.what, func(t *testing.T) {
			c := startCluster(t, 5)
			want := make([]string, 5)
			for owner, nodes := range split.others {
				c.plant("job", owner, time.Minute, nodes...)
				for _, i := range nodes {
					want[i] = owner
				}
			}
			lock := c.client().RedLock("job")
			for range 20 {
				_, err := lock.TryAcquire(t.Context())
				require.ErrorIs(t, err, quorumlock.ErrHeld)
			}
			for i, owner := range want {
				eventually(t, soon, func() bool { return c.owner(i, "job") == owner },
					"node %d has its former owner (%q)", i, owner)
			}
		})
	}
}

func TestRealCancelledAcquireLeavesNoKeys(t *testing.T) {
	c := startCluster(t, 5)
	var hooks sync.Map // the function that an event calls, by name
	react := func(names []string) {
		if cancel, ok := hooks.Load(names[0]); ok {
			cancel.(context.CancelFunc)()
		}
	}
	client := c.client(func(cfg *quorumlock.Config) {
		cfg.Hooks.AttemptFailed = func(e quorumlock.AttemptFailedEvent) { react(e.Names) }
		cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) { react(e.Names) }
	})
	won, cancelled := 0, 0
	for i := range 200 {
		name := "job" + strconv.Itoa(i) // Each round has its own name, as an event may come late.
		ctx, cancel := context.WithCancel(t.Context())
		var timer *time.Timer
		switch i % 4 {
		case 0: // A hook cancels after a failed attempt.
			c.plant(name, "x:1", time.Minute, i%3, 3, 4)
			hooks.Store(name, cancel)
		case 1: // A hook cancels after the grant. The lease stays valid.
			hooks.Store(name, cancel)
		case 2: // The cancel comes during an attempt.
			timer = time.AfterFunc(time.Duration(rand.Int64N(int64(500*time.Microsecond))), cancel)
		case 3: // The cancel comes between two attempts, or during one.
			c.plant(name, "x:1", time.Minute, 0, 1, 2)
			timer = time.AfterFunc(time.Duration(rand.Int64N(int64(20*time.Millisecond))), cancel)
		}
		lease, err := client.RedLock(name).Acquire(ctx)
		if err == nil {
			won++
			assert.NoError(t, lease.Err(), "the end of the context must not end the lease")
			assert.NoError(t, lease.Release(ctx))
		} else {
			cancelled++
			require.ErrorIs(t, err, context.Canceled)
		}
		if timer != nil {
			timer.Stop()
		}
		cancel()
		hooks.Delete(name)
		for n := range c.servers {
			if c.owner(n, name) == "x:1" {
				c.command(n, "DEL", name)
			}
		}
	}
	t.Logf("%d won, %d cancelled", won, cancelled)
	require.Greater(t, won, 40, "a cancel after the grant must not fail Acquire")
	require.Greater(t, cancelled, 80, "a cancel while the lock is held must end Acquire")
	c.noKeys()
}

func TestRealHungNodeKeepsNoKeys(t *testing.T) {
	for _, round := range []struct {
		what string
		do   func(t *testing.T, c *cluster, client *quorumlock.Client)
	}{
		{"won and released", func(t *testing.T, _ *cluster, client *quorumlock.Client) {
			require.NoError(t, acquire(t, client.RedLock("job")).Release(t.Context()))
		}},
		{"lost", func(t *testing.T, c *cluster, client *quorumlock.Client) {
			c.plant("job", "x:1", time.Minute, 0, 1, 2)
			_, err := client.RedLock("job").TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld)
			for i := range 3 {
				c.command(i, "DEL", "job")
			}
		}},
		{"denied to a MultiLock", func(t *testing.T, _ *cluster, client *quorumlock.Client) {
			_, err := client.MultiLock("job", "task").TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		}},
		{"cancelled", func(t *testing.T, _ *cluster, client *quorumlock.Client) {
			// It must be sent before the context ends, and the context must end before the node timeout of 1 s.
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := client.MultiLock("job").Acquire(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}},
	} {
		t.Run(round.what, func(t *testing.T) {
			c := startCluster(t, 5)
			client := c.client()
			require.NoError(t, acquire(t, client.RedLock("warm")).Release(t.Context()))
			c.noKeys()
			ran := c.calls(4)
			c.pause(4)
			round.do(t, c, client)
			c.resume(4)
			eventually(t, soon, func() bool { return c.calls(4) > ran }, "the node has run what was sent to it")
			c.noKeys()
		})
	}
}

// A node hangs for longer than the TTL and runs the acquisition afterwards. The client must still
// know that it has to undo it.
func TestRealNodeHungForLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	c := startCluster(t, 5)
	lock := c.client(withTTL(ttl)).RedLock("job")
	require.NoError(t, acquire(t, lock).Release(t.Context()))
	c.noKeys()

	ran := c.calls(4)
	c.pause(4)
	require.NoError(t, acquire(t, lock).Release(t.Context()))
	<-time.After(ttl * 3 / 2)
	c.resume(4)
	// The key may appear for a moment. Its own TTL ends only after soon.
	eventually(t, soon, func() bool { return c.calls(4) > ran }, "the node has run what was sent to it")
	eventually(t, soon, func() bool { return c.owner(4, "job") == "" },
		"the node that resumed has released the lock")
}
