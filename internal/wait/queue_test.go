package wait

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/lease"
)

// TestQueuesTwin compares the local queues of a client with a model, a slice for each queue. Waiters join and
// leave in any order, have their turn, take the lock, hand it over, and give it back.
//
// The first waiter of a local queue gets a signal whenever its turn comes, and no waiter overtakes it. An
// empty queue leaves nothing behind.
func TestQueuesTwin(t *testing.T) {
	specs := []*lease.Spec{specOf(1, "a"), specOf(1, "a", "b"), specOf(1, "a", "b"), specOf(1, "1:a1:b"), specOf(1, "a")}
	twin := []int{0, 1, 1, 2, 0} // Indices that share a number share a queue.
	// The grants come from an engine of their own: the twin tells the queues of them.
	_, grants := newQueues(t, 1)
	number, outer := 0, t
	rapid.Check(t, func(t *rapid.T) {
		qs, e := newQueues(outer, 1)
		p := &queueTwin{t: t, qs: qs, grants: grants, number: &number, waiting: make([][]*waiter, 3), holder: make([]*lease.Grant, 3), alert: make(map[*waiter]bool)}
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			which := rapid.IntRange(0, len(specs)-1).Draw(t, "lock")
			p.step(specs[which], twin[which])
			p.check()
			p.awake()
		}
		p.empty()
		require.Empty(t, qs.by)
		require.LessOrEqual(t, len(qs.spare), maxSpareQueues)
		for _, ln := range qs.spare {
			require.Equal(t, localQueue{}, *ln)
		}
		qs.Close()
		for _, l := range p.leases {
			_, err := l.BeginRelease(e.Clock.Now(), nil)
			require.NoError(t, err)
		}
		e.Nodes.Close()
	})
	grants.Close()
	grants.Nodes.Close()
}

// queueTwin models the expected state of the local queues.
type queueTwin struct {
	t       *rapid.T
	qs      *Queues
	waiting [][]*waiter
	holder  []*lease.Grant
	// grants is the engine that makes grants, and number makes their names distinct. leases are
	// the leases of these grants.
	grants *lease.Engine
	number *int
	leases []*lease.Lease
	// alert marks the waiters that looked at their turn, and will look again in time.
	alert map[*waiter]bool
}

// step takes one of the possible steps on a queue, or does nothing.
func (p *queueTwin) step(s *lease.Spec, k int) {
	ls := p.qs
	q := p.waiting[k]
	switch action := rapid.SampledFrom([]string{"join", "join", "leave", "take", "take from outside", "give", "pass"}).Draw(p.t, "action"); {
	case action == "join":
		w := p.qs.newWaiter(s, nil)
		p.waiting[k] = append(q, w)
		p.look(w)
	case action == "leave" && len(q) > 0:
		i := rapid.IntRange(0, len(q)-1).Draw(p.t, "place")
		ls.removeIfQueued(q[i])
		ls.removeIfQueued(q[i]) // A second removal does no harm.
		p.waiting[k] = append(q[:i:i], q[i+1:]...)
	case action == "take" && len(q) > 0 && p.holder[k] == nil:
		w := q[0]
		require.Same(p.t, w, ls.by[keyOf(s)].head)
		h := p.hold(w.spec)
		ls.OnTaken(h)
		p.holder[k] = h
		ls.removeIfQueued(w)
		p.waiting[k] = q[1:]
	case action == "take from outside" && p.holder[k] == nil:
		h := p.hold(s)
		ls.OnTaken(h)
		p.holder[k] = h
	case action == "give" && p.holder[k] != nil:
		ls.OnReleased(p.holder[k])
		ls.OnReleased(p.holder[k]) // A second release does no harm.
		p.holder[k] = nil
		if len(q) > 0 {
			require.True(p.t, q[0].stale, "the forecast of the first waiter is stale")
			require.Len(p.t, q[0].signals, 1, "the first waiter gets a signal")
		}
	case action == "pass" && p.holder[k] != nil:
		p.pass(k)
	}
}

// pass hands the lock over to the first waiter, if there is one and it has no attempt in flight.
func (p *queueTwin) pass(k int) {
	ls, q := p.qs, p.waiting[k]
	given := &lease.Lease{}
	passed := ls.HandOver(p.holder[k], func(*lease.Spec) *lease.Lease { return given })
	require.Equal(p.t, len(q) > 0, passed)
	if !passed {
		return
	}
	w := q[0]
	require.Same(p.t, given, w.handedOver)
	got, _, _, _ := w.untilAttempt()
	require.Same(p.t, given, got)
	require.Len(p.t, w.signals, 1)
	got, err := w.cancel(context.Canceled)
	require.NoError(p.t, err, "a waiter whose context ends at this instant has the lease")
	require.Same(p.t, given, got)
	p.waiting[k] = q[1:]
	for _, other := range p.waiting[k] {
		require.Nil(p.t, other.handedOver)
	}
}

// hold returns a held grant that belongs to the queue of a lock. Its names on the nodes are its own.
func (p *queueTwin) hold(s *lease.Spec) *lease.Grant {
	own := *s
	own.Names = nil
	for i := range s.Names {
		*p.number++
		own.Names = append(own.Names, fmt.Sprint(i, *p.number))
	}
	l, _, err := p.grants.Attempt(context.Background(), &own, lease.Request{})
	require.NoError(p.t, err)
	p.leases = append(p.leases, l)
	return l.Grant()
}

// look makes a waiter look, as it does before it waits. If it is the waiter's turn, its attempt
// fails, and it looks again.
func (p *queueTwin) look(w *waiter) {
	select {
	case <-w.signals:
	default:
	}
	_, _, wait, _ := w.untilAttempt()
	if wait <= 0 {
		w.queues.mu.Lock()
		w.attempting, w.nextAttempt = false, p.qs.engine.Clock.Now()+time.Hour
		w.queues.mu.Unlock()
		_, _, wait, _ = w.untilAttempt()
	}
	require.Positive(p.t, wait)
	p.alert[w] = wait < decision.Never
}

// awake lets some of the waiters that got a signal look.
func (p *queueTwin) awake() {
	for k, q := range p.waiting {
		for _, w := range q {
			if len(w.signals) > 0 && rapid.Bool().Draw(p.t, "looks") {
				p.look(w)
				require.Equal(p.t, w == q[0] && p.holder[k] == nil, p.alert[w])
			}
		}
	}
}

// check compares the local queues with their twins. A first waiter without a signal must already know that
// its turn has come.
func (p *queueTwin) check() {
	for k, q := range p.waiting {
		var ln *localQueue
		for _, other := range p.qs.by {
			if len(q) > 0 && other == q[0].queue || p.holder[k] != nil && other.heldBy == p.holder[k] {
				ln = other
			}
		}
		if len(q) == 0 && p.holder[k] == nil {
			continue
		}
		require.NotNil(p.t, ln)
		require.Same(p.t, p.holder[k], ln.heldBy)
		var got []*waiter
		for w := ln.head; w != nil; w = w.next {
			got = append(got, w)
		}
		require.Len(p.t, got, len(q))
		for i := range q {
			require.Same(p.t, q[i], got[i])
		}
		if len(q) > 0 && p.holder[k] == nil && !p.alert[q[0]] {
			require.Len(p.t, q[0].signals, 1, "the first waiter misses its turn")
		}
	}
}

func (p *queueTwin) empty() {
	for k := range p.waiting {
		if p.holder[k] != nil {
			p.qs.OnReleased(p.holder[k])
		}
		for _, w := range p.waiting[k] {
			p.qs.removeIfQueued(w)
		}
	}
}

func TestOutageMayBeginAtTheBeginningOfTheClock(t *testing.T) {
	qs, _ := newQueues(t, 1)
	q := &localQueue{}
	qs.recordAttempt(q, 0, lease.ErrClosed, false)
	qs.recordAttempt(q, time.Second, lease.ErrClosed, false)
	require.LessOrEqual(t, q.history.outage, time.Nanosecond)
}
