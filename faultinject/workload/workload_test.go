package workload

import (
	"context"
	"errors"
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
		require.Equal(t, 4, result.Objects[history.Object{Name: "a"}].Granted)
		require.Equal(t, 1, result.Objects[history.Object{Name: "b"}].Acts)
		require.Equal(t, 2, result.Objects[history.Object{Of: history.Semaphore, Name: "s"}].Released)
	})
}

// TestJoinedUses: each part of a joint lease has its own token and slots, and a failure is recorded for each.
func TestJoinedUses(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var log history.Log
		client, r := f.Client(), log.Recorder("c1", clock.Process())
		uses := []Use{{Names: []string{"a"}, Reads: true, Ending: Waive}, {Names: []string{"s"}, Permits: 2, Size: 2}}
		j := Join(client, r, 1, uses...)
		lease, err := j.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, j.Valid(lease))
		for i := range uses {
			u, attempts, token, slots := j.Part(i, lease)
			require.Equal(t, uses[i], u)
			require.NotZero(t, token)
			require.Len(t, slots, u.Permits)
			for _, attempt := range attempts {
				attempt.Granted("owner", token, slots)
			}
		}
		uses[0].Try = true
		other := Join(client, r, 2, uses...)
		_, err = other.Acquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		other.Failed(err)
		parts := j.Leases(lease)
		require.NoError(t, j.End(lease))
		for _, part := range parts {
			require.Error(t, part.Err())
		}
		require.NoError(t, Join(client, r, 3, uses...).Do(t.Context(), func(ctx context.Context) error { return ctx.Err() }))
		h, err := log.History()
		require.NoError(t, err)
		require.NoError(t, history.Check(h, time.Minute).Err())
		refused := 0
		for _, e := range h.Events() {
			if e.Error != "" {
				refused++
			}
		}
		require.Equal(t, 2, refused)
	})
}

// TestForcedReleases: a lock is taken from all holders, or from one owner.
func TestForcedReleases(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, u := f.Client(), Use{Names: []string{"a"}, Ending: Detach}
		lease, err := u.Acquire(t.Context(), client)
		require.NoError(t, err)
		kept, err := u.End(lease)
		require.NoError(t, err)
		require.Positive(t, kept)
		require.NoError(t, u.ReleaseOwner(t.Context(), client, lease.Owner()))
		_, err = Use{Names: []string{"a"}, Try: true}.Acquire(t.Context(), client)
		require.NoError(t, err)
		status, err := u.ForceRelease(t.Context(), client)
		require.NoError(t, err)
		require.NotEmpty(t, status.Holder())
		_, err = Use{Names: []string{"a"}, Try: true}.Acquire(t.Context(), client)
		require.NoError(t, err)
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
