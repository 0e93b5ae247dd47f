//go:build !race

package load_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// crowd lets n clients wait for a lock, each as a process of its own would, until their beats have settled.
func crowd(t *testing.T, f *fleet.Fleet, n int) (waits []*fleet.Acquisition, spies [][]*fleet.Spy) {
	t.Helper()
	for range n {
		c, own := f.SpiedClient()
		waits = append(waits, fleet.StartAcquire(t.Context(), t, c.RedLock("job")))
		spies = append(spies, own)
		time.Sleep(time.Millisecond) // The clients' clocks tell who came first.
	}
	time.Sleep(time.Minute)
	return waits, spies
}

// A queue of 1,000 processes costs each node at most 100 scripts a second. It is served in order, and without
// pauses, all the same.
func TestLongQueueCostsFewScripts(t *testing.T) {
	const clients, span = 1000, time.Minute
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits, spies := crowd(t, f, clients)
		asked, beats := fleet.TotalAsked(spies...), totalBeats(spies...)
		time.Sleep(span)
		require.Equal(t, asked, fleet.TotalAsked(spies...), "no attempt is made while the lock is held")
		rate := float64(totalBeats(spies...)-beats) / 3 / span.Seconds()
		t.Logf("%.1f scripts a second and node", rate)
		require.Less(t, rate, 100.0)
		require.Greater(t, rate, 60.0, "each waiter asks every 20 s at least")

		require.NoError(t, before.Release(t.Context()))
		for _, w := range waits {
			require.NoError(t, w.Has().Release(t.Context()))
		}
		f.RequireNoKeys()
	})
}

// The first waiters of a long queue ask once a second, those behind them less often, and a waiter that has moved up
// asks more often again.
func TestBeatsFollowTheRank(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits, spies := crowd(t, f, 41)
		polls := func(i int) float64 {
			beats := totalBeats(spies[i])
			time.Sleep(40 * time.Second)
			return float64(totalBeats(spies[i])-beats) / 3
		}
		require.InDelta(t, 40*1.15, polls(0), 7)
		require.InDelta(t, 40*1.15, polls(8), 7)
		require.InDelta(t, 40/2.5*1.15, polls(20), 3)
		require.InDelta(t, 40/5*1.15, polls(40), 2)

		require.NoError(t, before.Release(t.Context()))
		for _, w := range waits[:39] {
			require.NoError(t, w.Has().Release(t.Context()))
		}
		_ = waits[39].Has() // and keeps the lock
		time.Sleep(5 * time.Second)
		require.InDelta(t, 40*1.15, polls(40), 7)
		require.NoError(t, waits[39].Has().Release(t.Context()))
		_ = waits[40].Has()
	})
}

// A waiter was far back when it last asked, and the queue before it has drained since. If its wake is lost, it gets the
// lock at its next beat, and no node has forgotten it until then.
func TestLostWakeAfterALongQueue(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits, spies := crowd(t, f, 41)
		last := waits[40]
		for _, s := range spies[40] {
			s.Set(func(s *fleet.Spy) { s.Message = func(wire.Message) bool { return false } })
		}
		require.NoError(t, before.Release(t.Context()))
		for _, w := range waits[:40] {
			require.NoError(t, w.Has().Release(t.Context()))
		}
		require.LessOrEqual(t, f.Elapsed(func() { <-last.Done }), 5*time.Second)
		require.NoError(t, last.Has().Release(t.Context()))
		f.RequireNoKeys()
	})
}

// Each attempt and each beat tells the nodes to keep the waiter until after the next beat, and not for much longer: the
// entry of a client that dies ends then. The first attempt does not know yet how long the queue is.
func TestNodesKeepAWaiterUntilTheNextBeat(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waits, _ := crowd(t, f, 80)
		c, spies := f.SpiedClient()
		var asked, kept []time.Duration
		spies[0].Set(func(s *fleet.Spy) {
			s.Before = func(ops []wire.Op) {
				for _, op := range ops {
					switch {
					case op.Kind == wire.Refresh:
						asked, kept = append(asked, f.Clock.Now()), append(kept, op.TTL)
					case op.Kind == wire.Acquire && op.Waiter.ID != "":
						asked, kept = append(asked, f.Clock.Now()), append(kept, op.Waiter.Keep)
					}
				}
			}
		})
		for _, l := range []*quorumlock.Lock{c.RedLock("job"), c.MultiLock("job")} {
			waits = append(waits, fleet.StartAcquire(t.Context(), t, l))
			time.Sleep(time.Minute)
			for n := totalBeats(spies); totalBeats(spies) == n; { // The second waiter comes while beats are rare, right after one.
				time.Sleep(10 * time.Millisecond)
			}
		}
		require.NoError(t, before.Release(t.Context()))
		for _, w := range waits {
			require.NoError(t, w.Has().Release(t.Context()))
		}
		require.Greater(t, len(asked), 5)
		for i := range len(asked) - 1 {
			require.Greater(t, kept[i], asked[i+1]-asked[i])
			require.LessOrEqual(t, kept[i], 10*time.Second+2*time.Second+2*wire.DefaultTimeout)
		}
	})
}

// totalBeats returns how many operations of beats all these spies have counted.
func totalBeats(spies ...[]*fleet.Spy) (n int) {
	for _, s := range slices.Concat(spies...) {
		n += s.Beats()
	}
	return n
}
