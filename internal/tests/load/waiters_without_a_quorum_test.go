//go:build !race

package load_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Many waiters need all nodes, and one is down, so none of them can acquire the lock. Their failed attempts must not
// wake each other.
func TestMultiLockWaitersStayQuietWithANodeDown(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(_ *testing.T, f *fleet.Fleet) {
		blockWaiters(f, func(c *quorumlock.Client) *quorumlock.Lock { return c.MultiLock("job") }, 2)
	})
}

// The same holds for majority locks if most nodes are down.
func TestWaitersStayQuietWithoutAQuorum(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(_ *testing.T, f *fleet.Fleet) {
		blockWaiters(f, func(c *quorumlock.Client) *quorumlock.Lock { return c.RedLock("job") }, 1, 2)
	})
}

// blockWaiters starts many waiters for a lock. Then nodes that all of them need go down.
func blockWaiters(f *fleet.Fleet, lock func(c *quorumlock.Client) *quorumlock.Lock, down ...int) {
	f.T.Helper()
	const crowd = 25
	before := fleet.MustAcquire(f.T, f.Client().RedLock("job"))
	var watched [][]*fleet.Spy
	var messages atomic.Int64
	for range crowd {
		c, spies := f.SpiedClient()
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.Message = func(wire.Message) bool { messages.Add(1); return true } })
		}
		watched = append(watched, spies)
		_ = fleet.StartAcquire(f.T.Context(), f.T, lock(c))
		time.Sleep(time.Millisecond)
	}
	f.Stop(down...)
	_ = before.Release(f.T.Context()) // Without a majority of nodes, no quorum confirms the release.
	time.Sleep(5 * time.Second)
	asked, told := fleet.TotalAsked(watched...), messages.Load()
	time.Sleep(5 * time.Second)
	asked, told = fleet.TotalAsked(watched...)-asked, messages.Load()-told
	f.T.Logf("in 5 s: %d acquisitions, %d messages", asked, told)
	require.LessOrEqual(f.T, told, int64(3*asked))
}

// Waiters that need a node that is down must not slow other waiters much.
func TestBlockedWaitersHardlySlowOthers(t *testing.T) {
	for _, crowd := range fleet.Longer([]int{0, 20}, []int{0, 1, 5, 20}) {
		samples := 15 // Each sample depends on chance, so the median counts. One sample in ten is below the bound.
		if crowd == 0 {
			samples = 1 // Without blocked waiters, each sample has the same number of turns.
		}
		var turns []int
		var longest []time.Duration
		for range samples {
			fleet.InVirtualTime(t, 3, func(_ *testing.T, f *fleet.Fleet) {
				s := busyAmongBlocked(f, crowd)
				turns = append(turns, s.count[0]+s.count[1]+s.count[2])
				longest = append(longest, s.longest)
			})
		}
		slices.Sort(turns)
		slices.Sort(longest)
		t.Logf("crowd %d: turns %v, longest %v", crowd, turns, longest)
		// The delay of a turn does not depend on the number of blocked waiters.
		require.GreaterOrEqual(t, turns[samples/2], 30)
		require.LessOrEqual(t, longest[samples/2], 2*time.Second)
	}
}

// busyAmongBlocked lets three clients use a lock for four seconds. Meanwhile other waiters need all nodes, and one node
// is down.
func busyAmongBlocked(f *fleet.Fleet, crowd int) *served {
	f.T.Helper()
	before := fleet.MustAcquire(f.T, f.Client().RedLock("job"))
	for range crowd {
		_ = fleet.StartAcquire(f.T.Context(), f.T, f.Client().MultiLock("job"))
		time.Sleep(time.Millisecond)
	}
	f.Stop(2)
	require.NoError(f.T, before.Release(f.T.Context()))
	time.Sleep(time.Second)
	clients := []*quorumlock.Client{f.Client(), f.Client(), f.Client()}
	return busy(f, clients, 2, quorumlock.LockOptions{NoHandover: true}, 3*time.Millisecond, 4*time.Second)
}
