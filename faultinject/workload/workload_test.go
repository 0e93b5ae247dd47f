package workload

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

var habits = Habits{
	Names: [][]string{{"a"}, {"a", "b"}}, Holds: []time.Duration{time.Second, time.Minute}, Patience: time.Hour,
	Careless: 4, Fixed: 3, Short: []time.Duration{0, time.Second},
}

// TestDrawnUsesFollowHabits: every habit occurs, no use exceeds one, and the same seed gives the same uses.
func TestDrawnUsesFollowHabits(t *testing.T) {
	d, again := NewDrawer(1, 2), NewDrawer(1, 2)
	var longest time.Duration
	var fixed, careless, short, all int
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for range 1000 {
		u := d.Lock(habits)
		require.Equal(t, u, again.Lock(habits))
		require.LessOrEqual(t, u.Patience, time.Hour)
		require.LessOrEqual(t, u.Hold, time.Minute)
		require.True(t, u.All || len(u.Names) == 1, "several names need all nodes")
		longest = max(longest, u.Hold)
		count(&fixed, u.Fixed)
		count(&careless, u.Careless)
		count(&short, u.TTL == time.Second)
		count(&all, u.All)
	}
	require.Greater(t, longest, 50*time.Second)
	require.InDelta(t, 333, fixed, 100)
	require.InDelta(t, 250, careless, 100)
	require.InDelta(t, 500, short, 100)
	require.InDelta(t, 541, all, 100)
}

func TestSharedUses(t *testing.T) {
	d := NewDrawer(1, 2)
	readers, downgrades := 0, 0
	for range 1000 {
		u := Use{Names: []string{"a"}}
		d.Share(&u, 3)
		require.False(t, u.Reads && u.Downgrade, "a reader becomes none")
		if u.Reads {
			readers++
		}
		if u.Downgrade {
			downgrades++
		}
		d.Permits(&u, 3)
		require.False(t, u.All || u.Reads || u.Downgrade)
		require.Equal(t, 3, u.Size)
		require.Contains(t, []int{1, 2, 3}, u.Permits)
	}
	require.InDelta(t, 750, readers, 100)
	require.InDelta(t, 83, downgrades, 40)
}

// TestUsesAreRecordedOnceForEachName: the checker sees each name of a lock, and all permits together.
func TestUsesAreRecordedOnceForEachName(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var log history.Log
		client, r := f.Client(), log.Recorder("c1", clock.Process())
		for _, u := range []Use{
			{Names: []string{"a"}},
			{Names: []string{"a", "b"}, All: true, Fixed: true},
			{Names: []string{"a"}, Reads: true},
			{Names: []string{"a"}, Downgrade: true, Try: true},
			{Names: []string{"s"}, Permits: 2, Size: 3, Careless: true, Hold: time.Minute},
			{Names: []string{"s"}, Permits: 1, Size: 3, Try: true},
		} {
			attempts := u.Attempts(r, 1)
			lease, err := u.Acquire(t.Context(), client)
			require.NoError(t, err)
			var parts Parts
			for _, attempt := range attempts {
				parts = append(parts, attempt.Granted(lease.Owner(), lease.Token(), lease.Slots()))
			}
			require.Len(t, parts, len(u.Names))
			require.NoError(t, parts.Record((*history.Holding).Act, lease.Err))
			if u.Downgrade {
				require.NoError(t, lease.Downgrade(t.Context()))
			}
			require.NoError(t, parts.Record((*history.Holding).Release, func() error { return lease.Release(t.Context()) }))
			parts.Lost(errors.New("released"))
		}
		h, err := log.History()
		require.NoError(t, err)
		result := history.Check(h, time.Minute)
		require.NoError(t, result.Err())
		require.Equal(t, 4, result.Names["a"].Granted)
		require.Equal(t, 1, result.Names["b"].Acts)
		require.Equal(t, 2, result.Semaphores["s"].Released)
	})
}

// TestJoinedUses: each part of a joint lease has its own token and slots.
func TestJoinedUses(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock, ofLock := Use{Names: []string{"a"}, Reads: true}.Join(client)
		permits, ofPermits := Use{Names: []string{"s"}, Permits: 2, Size: 2}.Join(client)
		lease, err := quorumlock.Join(lock, permits).Acquire(t.Context())
		require.NoError(t, err)
		token, slots := ofLock(lease)
		require.NotZero(t, token)
		require.Empty(t, slots)
		other, slots := ofPermits(lease)
		require.NotZero(t, other)
		slices.Sort(slots)
		require.Equal(t, []int{0, 1}, slots)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// TestLatchCalls: each call is made, and recorded with its result.
func TestLatchCalls(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var log history.Log
		latch, r := f.Client().Latch("l"), log.Recorder("c1", clock.Process())
		var made []string
		for _, call := range []LatchCall{
			{Kind: history.Set, Count: 1}, {Kind: history.Count}, {Kind: history.CountDown, ID: "p"}, {Kind: history.Await}, {Kind: history.Delete},
		} {
			made = append(made, call.String())
			left, err := call.Make(t.Context(), latch, r, 1)
			require.NoError(t, err)
			require.Equal(t, call.Kind == history.Count, left == 1)
		}
		_, err := LatchCall{Kind: history.CountDown, ID: "p"}.Make(t.Context(), latch, r, 1)
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
		require.Equal(t, []string{"set the latch to 1", "count the latch", `count down with "p"`, "await the latch", "delete the latch"}, made)
		h, err := log.History()
		require.NoError(t, err)
		require.Len(t, h.Events(), 6)
		require.Equal(t, history.NotSet, h.Events()[5].Refusal)
		require.NoError(t, history.Check(h, time.Minute).Err())
	})
}
