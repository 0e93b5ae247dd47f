package wait

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/lease"
)

// TestLinesTwin compares the lines of a client with a model, a slice for each line. Waiters join and
// leave in any order, have their turn, take the lock, hand it over, and give it back.
//
// The first waiter of a line is nudged whenever its turn comes, and no waiter overtakes it. An
// empty line leaves nothing behind.
func TestLinesTwin(t *testing.T) {
	specs := []*lease.Spec{specOf(1, "a"), specOf(1, "a", "b"), specOf(1, "a", "b"), specOf(1, "1:a1:b"), specOf(1, "a")}
	twin := []int{0, 1, 1, 2, 0} // Indices that share a number share a line.
	// The grants come from an engine of their own: the twin tells the lines of them.
	grants := newEngine(t, 1)
	e := newEngine(t, 1)
	number := 0
	rapid.Check(t, func(t *rapid.T) {
		qs := newQueues(e)
		p := &lineTwin{t: t, qs: qs, grants: grants, number: &number, line: make([][]*waiter, 3), holder: make([]*lease.Grant, 3), alert: make(map[*waiter]bool)}
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
	})
	grants.Close()
	grants.Nodes.Close()
	e.Nodes.Close()
}

// lineTwin models the expected state of the lines.
type lineTwin struct {
	t      *rapid.T
	qs     *Queues
	line   [][]*waiter
	holder []*lease.Grant
	// grants is the engine that makes grants, and number makes their names distinct. leases are
	// the leases of these grants.
	grants *lease.Engine
	number *int
	leases []*lease.Lease
	// alert marks the waiters that looked when it was their turn, and will look again in time.
	alert map[*waiter]bool
}

// step takes one of the possible steps on a line, or does nothing.
func (p *lineTwin) step(s *lease.Spec, k int) {
	ls := p.qs
	q := p.line[k]
	switch action := rapid.SampledFrom([]string{"join", "join", "leave", "take", "take from outside", "give", "pass"}).Draw(p.t, "action"); {
	case action == "join":
		w := p.qs.newWaiter(s, nil)
		p.line[k] = append(q, w)
		p.look(w)
	case action == "leave" && len(q) > 0:
		i := rapid.IntRange(0, len(q)-1).Draw(p.t, "place")
		ls.removeIfQueued(q[i])
		ls.removeIfQueued(q[i]) // A second removal does no harm.
		p.line[k] = append(q[:i:i], q[i+1:]...)
	case action == "take" && len(q) > 0 && p.holder[k] == nil:
		w := q[0]
		require.Same(p.t, w, ls.by[keyOf(s)].head)
		h := p.hold(w.spec)
		ls.OnTaken(h)
		p.holder[k] = h
		ls.removeIfQueued(w)
		p.line[k] = q[1:]
	case action == "take from outside" && p.holder[k] == nil:
		h := p.hold(s)
		ls.OnTaken(h)
		p.holder[k] = h
	case action == "give" && p.holder[k] != nil:
		ls.OnReleased(p.holder[k])
		ls.OnReleased(p.holder[k]) // A second release does no harm.
		p.holder[k] = nil
		if len(q) > 0 {
			require.True(p.t, q[0].stale, "what it expects is out of date")
			require.Len(p.t, q[0].nudged, 1, "and it is told")
		}
	case action == "pass" && p.holder[k] != nil:
		p.pass(k)
	}
}

// pass hands the lock over to the first waiter, if there is one and it has no attempt in flight.
func (p *lineTwin) pass(k int) {
	ls, q := p.qs, p.line[k]
	given := &lease.Lease{}
	passed := ls.HandOver(p.holder[k], func(*lease.Spec) *lease.Lease { return given })
	require.Equal(p.t, len(q) > 0, passed)
	if !passed {
		return
	}
	w := q[0]
	require.Same(p.t, given, w.handedOver)
	got, _, _ := w.untilAttempt()
	require.Same(p.t, given, got)
	require.Len(p.t, w.nudged, 1)
	p.line[k] = q[1:]
	for _, other := range p.line[k] {
		require.Nil(p.t, other.handedOver)
	}
}

// hold returns a held grant that belongs to the line of a lock. Its names on the nodes are its own.
func (p *lineTwin) hold(s *lease.Spec) *lease.Grant {
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
func (p *lineTwin) look(w *waiter) {
	select {
	case <-w.nudged:
	default:
	}
	_, _, wait := w.untilAttempt()
	if wait <= 0 {
		w.queues.mu.Lock()
		w.attempting, w.nextAttempt = false, p.qs.engine.Clock.Now()+time.Hour
		w.queues.mu.Unlock()
		_, _, wait = w.untilAttempt()
	}
	require.Positive(p.t, wait)
	p.alert[w] = wait < lease.Never
}

// awake lets some of the nudged waiters look.
func (p *lineTwin) awake() {
	for k, q := range p.line {
		for _, w := range q {
			if len(w.nudged) > 0 && rapid.Bool().Draw(p.t, "looks") {
				p.look(w)
				require.Equal(p.t, w == q[0] && p.holder[k] == nil, p.alert[w])
			}
		}
	}
}

// check compares the lines with their twins. A first waiter without a nudge must already know that
// its turn has come.
func (p *lineTwin) check() {
	for k, q := range p.line {
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
			require.Equal(p.t, i < len(q)-1, p.qs.hasFollower(q[i]))
		}
		if len(q) > 0 && p.holder[k] == nil && !p.alert[q[0]] {
			require.Len(p.t, q[0].nudged, 1, "it misses its turn")
		}
	}
}

// empty removes all waiters and holders.
func (p *lineTwin) empty() {
	for k := range p.line {
		if p.holder[k] != nil {
			p.qs.OnReleased(p.holder[k])
		}
		for _, w := range p.line[k] {
			p.qs.removeIfQueued(w)
		}
	}
}
