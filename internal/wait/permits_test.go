package wait

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
)

// permitsOf is the spec of a call for some of ten permits.
func permitsOf(qs *Queues, want int) *lease.Spec {
	p := qs.env.Slots.Of("jobs")
	return &lease.Spec{
		Names: []string{p.Name()}, Queue: [1]string{p.Name()}, Need: 1, TTL: 10 * time.Second,
		Slots: &slots.Request{Pool: p, Semaphore: "jobs", Want: want, Permits: 10},
	}
}

// begins reports whether a waiter begins an attempt when it looks.
func begins(w *waiter) bool {
	_, _, wait, _ := w.untilAttempt()
	return wait <= 0
}

// lineUp makes waiters for one of ten permits each.
func lineUp(qs *Queues, n int) (line []*waiter) {
	for range n {
		line = append(line, qs.newWaiter(permitsOf(qs, 1), nil))
	}
	return line
}

func TestWaitersForPermitsBeginInTheirOrder(t *testing.T) {
	qs, _ := newQueues(t, 1)
	line := lineUp(qs, 4)
	require.False(t, begins(line[1]), "it looks before the first one")
	require.True(t, begins(line[0]))
	require.Len(t, line[1].signals, 1)
	require.False(t, begins(line[2]))
	require.True(t, begins(line[1]))
	require.Len(t, line[2].signals, 1)
	qs.removeIfQueued(line[2])
	require.True(t, begins(line[3]), "the next one has left")
	require.True(t, begins(qs.newWaiter(permitsOf(qs, 1), nil)))
}

func TestWaitersForPermitsBeginWhileTheyFit(t *testing.T) {
	qs, _ := newQueues(t, 1)
	held := permitsOf(qs, 4).Slots
	names, _, ok := held.Choose(1, nil)
	require.True(t, ok)
	first, many, few := qs.newWaiter(permitsOf(qs, 1), nil), qs.newWaiter(permitsOf(qs, 7), nil), qs.newWaiter(permitsOf(qs, 1), nil)
	require.True(t, begins(first))
	require.False(t, begins(many))
	require.False(t, begins(few), "it would take what the one ahead waits for")
	held.GiveUp(names, true)
	require.True(t, begins(many))
	require.True(t, begins(few))
}

// After a denial, those behind the first ask for what the client gives back, and for a sixteenth more. If one is known to
// wait, they later ask for a quarter of what was given back.
func TestRoomForPermits(t *testing.T) {
	qs, e := newQueues(t, 1)
	defer func() { qs.Close(); e.Close(); e.Nodes.Close() }()
	line := lineUp(qs, 10)
	require.True(t, begins(line[0]))
	q := line[0].queue
	line[0].planNext(lease.Retry{Useful: true}, lease.ErrHeld)
	next := 1
	beginAll := func() (n int) {
		for ; next < len(line) && begins(line[next]); next++ {
			n++
		}
		return n
	}
	q.gaveBack(7)
	require.Zero(t, beginAll(), "one is known to wait")
	qs.removeIfQueued(line[0])
	require.True(t, begins(line[1]), "it is the first now")
	next = 2
	require.Equal(t, 1, beginAll())
	q.gaveBack(1)
	require.Equal(t, 1, beginAll(), "of 2 13/16")
	q.gaveBack(5)
	require.Equal(t, 6, beginAll(), "of 6 2/16")
	require.Equal(t, 2, q.history.room)
}

// A parked waiter had its turn: others need not wait behind it, and it asks as soon as it is woken.
func TestParkedWaiterForPermitsIsNotInTheWay(t *testing.T) {
	inCrowd(t, func(t *testing.T, qs *Queues) {
		first := qs.newWaiter(permitsOf(qs, 1), nil)
		require.True(t, begins(first))
		parked := parkFor(t, qs, permitsOf(qs, 1), 290*time.Millisecond)
		behind := qs.newWaiter(permitsOf(qs, 1), nil)
		require.True(t, begins(behind))
		behind.planNext(lease.Retry{Useful: true}, lease.ErrHeld)
		require.False(t, begins(qs.newWaiter(permitsOf(qs, 1), nil)), "one is known to wait")
		require.True(t, begins(parked))
		for _, w := range []*waiter{first, parked, behind} {
			w.unpark()
			w.finish(nil)
		}
	})
}
