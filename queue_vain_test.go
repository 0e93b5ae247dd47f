package quorumlock_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// Many wait for what none of them can have, as a node is down that they need: that must not
// have each tell all others of each attempt.
func TestACrowdThatCannotHaveTheLock(t *testing.T) {
	inVirtualTime(t, 3, func(_ *testing.T, f *fleet) {
		f.crowdInVain(func(c *quorumlock.Client) *quorumlock.Lock { return c.MultiLock("job") }, 2)
	})
}

// The same where most nodes are down.
func TestACrowdWithoutAQuorum(t *testing.T) {
	inVirtualTime(t, 3, func(_ *testing.T, f *fleet) {
		f.crowdInVain(func(c *quorumlock.Client) *quorumlock.Lock { return c.RedLock("job") }, 1, 2)
	})
}

// crowdInVain has many wait for a lock, and then nodes go down that all of them need.
func (f *fleet) crowdInVain(lock func(c *quorumlock.Client) *quorumlock.Lock, down ...int) {
	f.t.Helper()
	const crowd = 40
	before := held(f.t, f.client().RedLock("job"))
	var watched [][]*spy
	var messages atomic.Int64
	for range crowd {
		c, spies := f.spied()
		for _, s := range spies {
			s.set(func(s *spy) { s.message = func(node.Message) bool { messages.Add(1); return true } })
		}
		watched = append(watched, spies)
		_ = acquiring(f.t.Context(), f.t, lock(c))
		time.Sleep(time.Millisecond)
	}
	f.stop(down...)
	_ = before.Release(f.t.Context()) // where most are down, nobody confirms it
	time.Sleep(5 * time.Second)
	asked, told := total(watched...), messages.Load()
	time.Sleep(5 * time.Second)
	asked, told = total(watched...)-asked, messages.Load()-told
	f.t.Logf("in 5 s: %d acquisitions, %d messages", asked, told)
	require.LessOrEqual(f.t, told, int64(3*asked))
}

// Those who cannot have the lock, as they need a node that is down, hardly slow those who can.
func TestACrowdThatCannotWinAmongThoseWhoCan(t *testing.T) {
	for _, crowd := range []int{0, 1, 5, 20} {
		samples := 7 // chance has its share in each: the one in the middle counts
		if crowd == 0 {
			samples = 1 // nobody is in the way: each has as many turns, and many times those of the others
		}
		var turns []int
		var longest []time.Duration
		for range samples {
			inVirtualTime(t, 3, func(_ *testing.T, f *fleet) {
				s := f.amongThoseInVain(crowd)
				turns = append(turns, s.count[0]+s.count[1]+s.count[2])
				longest = append(longest, s.longest)
			})
		}
		slices.Sort(turns)
		slices.Sort(longest)
		t.Logf("crowd %d: turns %v, longest %v", crowd, turns, longest)
		// Each turn costs two patiences and a little, however many come in vain.
		require.GreaterOrEqual(t, turns[samples/2], 30)
		require.LessOrEqual(t, longest[samples/2], 2*time.Second)
	}
}

// amongThoseInVain has three clients use a lock for four seconds, for which some others wait
// that need all nodes, while one is down.
func (f *fleet) amongThoseInVain(crowd int) *served {
	f.t.Helper()
	before := held(f.t, f.client().RedLock("job"))
	for range crowd {
		_ = acquiring(f.t.Context(), f.t, f.client().MultiLock("job"))
		time.Sleep(time.Millisecond)
	}
	f.stop(2)
	require.NoError(f.t, before.Release(f.t.Context()))
	time.Sleep(time.Second)
	clients := []*quorumlock.Client{f.client(), f.client(), f.client()}
	return f.busy(clients, 2, quorumlock.LockOptions{NoHandover: true}, 3*time.Millisecond, 4*time.Second)
}

// A subscription that is given up while somebody asks for a lock: the entry that this leaves
// has no inbox, and the wake is lost.
func TestTheSubscriptionIsGivenUpDuringAnAttempt(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, spies := f.spied()
		before := held(t, f.client().RedLock("job"))
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		require.True(t, waits.waits())
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.has().Release(t.Context()))
		settled()
		before = held(t, f.client().RedLock("job"))
		time.Sleep(10*time.Second - 5*time.Millisecond)
		for _, s := range spies {
			s.set(func(s *spy) { s.after = func() { time.Sleep(20 * time.Millisecond) } })
		}
		waits = acquiring(t.Context(), t, c.RedLock("job"))
		time.Sleep(15 * time.Millisecond) // the subscriptions are given up by now
		require.NoError(t, before.Release(t.Context()))
		took := f.elapsed(func() { <-waits.done })
		t.Log(took)
		require.LessOrEqual(t, took, 100*time.Millisecond)
	})
}

// The undo of an attempt that comes after the release of what the next attempt won leaves no
// entry of a waiter that is gone.
func TestAnUndoBehindTheRelease(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, ways := f.hookedClient()
		before := held(t, f.client().RedLock("job"))
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.has().Release(t.Context()))
		settled() // the inboxes are there

		f.take("job", "x", 0, 1)
		proceed := make(chan struct{})
		var once sync.Once
		ways[2].set(func([]node.Op) { once.Do(func() { <-proceed }) }, nil)
		_, _ = c.RedLock("third").TryAcquire(t.Context())
		waits = acquiring(t.Context(), t, c.RedLock("job"))
		require.True(t, waits.waits())
		f.free("job", "x", 0, 1)
		lease := waits.has()
		require.NoError(t, lease.Release(t.Context()))
		settled()
		close(proceed)
		settled()
		f.noKeysOf(t, "job")
		f.take("job", "x", 0, 1, 2)
		require.Zero(t, f.waiters())
	})
}

func (f *fleet) noKeysOf(t *testing.T, name string) {
	t.Helper()
	for _, n := range f.nodes {
		require.NotContains(t, n.Keys(), name)
	}
}

var _ = context.Background
