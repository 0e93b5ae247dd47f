package wait

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
)

// permitsOf is the spec of a call for some permits of a semaphore of this size.
func permitsOf(qs *Queues, want, size int) *lease.Spec {
	p := qs.env.Slots.Of("jobs")
	return &lease.Spec{
		Names: []string{p.Name()}, Queue: [1]string{p.Name()}, Need: 1, TTL: 10 * time.Second,
		Slots: &slots.Request{Pool: p, Semaphore: "jobs", Want: want, Permits: size},
	}
}

// begins reports whether a waiter begins an attempt when it looks.
func begins(w *waiter) bool {
	_, _, wait, _ := w.untilAttempt()
	return wait <= 0
}

// lineUp makes waiters for one of ten permits each. With deny, the nodes have denied permits to an earlier one.
func lineUp(t *testing.T, n int, deny bool) (qs *Queues, e *lease.Engine, line []*waiter) {
	t.Helper()
	qs, e = newQueues(t, 1)
	t.Cleanup(func() { qs.Close(); e.Close(); e.Nodes.Close() })
	var before *waiter
	if deny {
		before = qs.newWaiter(permitsOf(qs, 1, 10), nil)
		require.True(t, begins(before))
		before.planNext(lease.Retry{Useful: true}, lease.ErrHeld)
		before.blocked = false
		before.queue.blocked--
	}
	for range n {
		line = append(line, qs.newWaiter(permitsOf(qs, 1, 10), nil))
	}
	if deny {
		before.queue.history.came = 0
		qs.removeIfQueued(before)
	}
	return qs, e, line
}

func TestWaitersForPermitsBeginInTheirOrder(t *testing.T) {
	qs, _, line := lineUp(t, 4, false)
	require.False(t, begins(line[1]), "it looks before the first one")
	require.True(t, begins(line[0]))
	require.Len(t, line[1].signals, 1)
	require.False(t, begins(line[2]))
	require.True(t, begins(line[1]))
	require.Len(t, line[2].signals, 1)
	qs.removeIfQueued(line[2])
	require.True(t, begins(line[3]), "the next one has left")
	require.True(t, begins(qs.newWaiter(permitsOf(qs, 1, 10), nil)))
}

func TestWaitersForPermitsBeginWhileTheyFit(t *testing.T) {
	qs, e, line := lineUp(t, 1, false)
	held, _, err := e.Attempt(t.Context(), permitsOf(qs, 4, 10), lease.Request{Began: e.Clock.Now()})
	require.NoError(t, err)
	many, few := qs.newWaiter(permitsOf(qs, 7, 10), nil), qs.newWaiter(permitsOf(qs, 1, 10), nil)
	require.True(t, begins(line[0]))
	require.False(t, begins(many))
	require.False(t, begins(few), "it would take what the one ahead waits for")
	_, err = held.BeginRelease(e.Clock.Now(), nil)
	require.NoError(t, err)
	require.Len(t, many.signals, 1, "a release wakes the next")
	require.True(t, begins(many))
	require.True(t, begins(few))
}

// The end of a wait wakes the next waiter also if it is not the first that leaves.
func TestWaiterForPermitsThatLeavesWakesTheNext(t *testing.T) {
	qs, _, line := lineUp(t, 3, false)
	require.True(t, begins(line[0]))
	require.True(t, begins(line[1]))
	line[1].planNext(lease.Retry{Useful: true}, lease.ErrHeld)
	require.False(t, begins(line[2]), "one is known to wait")
	qs.removeIfQueued(line[1])
	require.Len(t, line[2].signals, 1)
}

func TestRoomForPermits(t *testing.T) {
	for what, c := range map[string]struct {
		freed, came, want int
		blocked           bool // while permits are freed and calls come
		begin             int  // besides the first, which is the pilot
	}{
		"nothing is free":                 {want: 1},
		"as much as was freed":            {freed: 3, want: 1, begin: 3},
		"as much as new calls want":       {came: 3, want: 1, begin: 3},
		"the larger of the two":           {freed: 2, came: 3, want: 1, begin: 3},
		"nothing while one waits":         {freed: 3, came: 3, want: 1, blocked: true},
		"too little for several":          {freed: 2, want: 3},
		"enough for several":              {freed: 3, want: 3, begin: 1},
		"no more than there are permits":  {freed: 30, want: 1, begin: 9},
		"several, with what is left over": {freed: 7, want: 3, begin: 2},
	} {
		t.Run(what, func(t *testing.T) {
			qs, _, line := lineUp(t, 1, true)
			q := line[0].queue
			require.True(t, begins(line[0]), "the first may always ask")
			if c.blocked {
				q.blocked++
			}
			for range c.freed {
				q.addRoom(permitsOf(qs, 1, 10).Slots, false)
			}
			for range c.came {
				q.addRoom(permitsOf(qs, 1, 10).Slots, true)
			}
			if c.blocked {
				q.blocked--
			}
			require.LessOrEqual(t, max(q.history.freed, q.history.came), 10, "as there are no more permits")
			came, n := q.history.came, 0
			for range 10 {
				w := qs.newWaiter(permitsOf(qs, c.want, 10), nil)
				q.history.came = came // as if it had come before
				if begins(w) {
					came, n = q.history.came, n+1
				}
			}
			require.Equal(t, c.begin, n)
		})
	}
}

// Without room, one waiter asks at a time: the next once its attempt has ended.
func TestPilotForPermits(t *testing.T) {
	qs, _, line := lineUp(t, 4, true)
	h := line[0].queue.history
	require.True(t, begins(line[0]))
	require.False(t, begins(line[1]))
	h.freed = 1
	require.True(t, begins(line[1]))
	qs.removeIfQueued(line[0])
	require.True(t, begins(line[2]), "the pilot has landed")
	require.Same(t, line[2], h.pilot)
	require.False(t, begins(line[3]))
	line[2].planNext(lease.Retry{}, lease.ErrClosed)
	require.Nil(t, h.pilot)
}

func TestDenialHalvesTheRoom(t *testing.T) {
	_, _, line := lineUp(t, 2, true)
	h := line[0].queue.history
	h.freed, h.came = 10, 8
	require.True(t, begins(line[0]), "which takes no room")
	line[0].planNext(lease.Retry{Useful: true}, lease.ErrHeld)
	require.Equal(t, []int{5, 4}, []int{h.freed, h.came})
}

func TestRoomIsNotUsedBeforeTheFirstDenial(t *testing.T) {
	_, _, line := lineUp(t, 3, false)
	h := line[0].queue.ensureHistory()
	for _, w := range line {
		require.True(t, begins(w))
	}
	require.Zero(t, h.freed+h.came)
}

// A parked waiter had its turn: others need not wait behind it, and it asks as soon as it is woken.
func TestParkedWaiterForPermitsIsNotInTheWay(t *testing.T) {
	inCrowd(t, func(t *testing.T, qs *Queues) {
		first := qs.newWaiter(permitsOf(qs, 1, 10), nil)
		require.True(t, begins(first))
		parked := parkFor(t, qs, permitsOf(qs, 1, 10), 290*time.Millisecond)
		behind := qs.newWaiter(permitsOf(qs, 1, 10), nil)
		require.True(t, begins(behind))
		behind.planNext(lease.Retry{Useful: true}, lease.ErrHeld)
		require.False(t, begins(qs.newWaiter(permitsOf(qs, 1, 10), nil)), "one is known to wait")
		require.True(t, begins(parked))
		for _, w := range []*waiter{first, parked, behind} {
			w.unpark()
			w.finish(nil)
		}
	})
}

func TestParkedWaiterForPermitsWakesTheNext(t *testing.T) {
	inCrowd(t, func(t *testing.T, qs *Queues) {
		first := qs.newWaiter(permitsOf(qs, 1, 1), nil)
		require.True(t, begins(first))
		next := qs.newWaiter(permitsOf(qs, 1, 1), nil)
		require.False(t, begins(next), "more calls than permits")
		ctx, cancel := context.WithTimeout(t.Context(), 290*time.Millisecond)
		defer cancel()
		first.park(ctx)
		require.Len(t, next.signals, 1)
		first.unpark()
		first.finish(nil)
		next.finish(nil)
	})
}
