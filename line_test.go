package quorumlock

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/node"
)

// TestLinesTwin compares the lines of a client with a model, a slice for each line. Waiters join and
// leave in any order, have their turn, take the lock, hand it over, and give it back.
//
// The first waiter of a line is nudged whenever its turn comes, and no waiter overtakes it. An
// empty line leaves nothing behind.
func TestLinesTwin(t *testing.T) {
	c, err := New(Config{Nodes: []node.Node{node.NewMemory("n", nil)}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	locks := []*Lock{c.RedLock("a"), c.MultiLock("a", "b"), c.MultiLock("b", "a"), c.RedLock("1:a1:b"), c.RedLock("a")}
	twin := []int{0, 1, 1, 2, 0} // Indices that share a number share a line.
	rapid.Check(t, func(t *rapid.T) {
		c.queues = localQueues{}
		p := &lineTwin{t: t, c: c, line: make([][]*waiter, 3), holder: make([]*grant, 3), alert: make(map[*waiter]bool)}
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			which := rapid.IntRange(0, len(locks)-1).Draw(t, "lock")
			p.step(locks[which], twin[which])
			p.check()
			p.awake()
		}
		p.empty()
		require.Empty(t, c.queues.by)
		require.LessOrEqual(t, len(c.queues.spare), maxSpareQueues)
		for _, ln := range c.queues.spare {
			require.Equal(t, localQueue{}, *ln)
		}
	})
}

// lineTwin models the expected state of the lines.
type lineTwin struct {
	t      *rapid.T
	c      *Client
	line   [][]*waiter
	holder []*grant
	// alert marks the waiters that looked when it was their turn, and will look again in time.
	alert map[*waiter]bool
}

// step takes one of the possible steps on a line, or does nothing.
func (p *lineTwin) step(l *Lock, k int) {
	ls := &p.c.queues
	q := p.line[k]
	switch action := rapid.SampledFrom([]string{"join", "join", "leave", "take", "take from outside", "give", "pass"}).Draw(p.t, "action"); {
	case action == "join":
		w := newWaiter(l)
		p.line[k] = append(q, w)
		p.look(w)
	case action == "leave" && len(q) > 0:
		i := rapid.IntRange(0, len(q)-1).Draw(p.t, "place")
		ls.removeIfQueued(q[i])
		ls.removeIfQueued(q[i]) // A second removal does no harm.
		p.line[k] = append(q[:i:i], q[i+1:]...)
	case action == "take" && len(q) > 0 && p.holder[k] == nil:
		w := q[0]
		require.Same(p.t, w, ls.by[l.queueKey()].head)
		h := p.hold(w.lock, w)
		ls.onTaken(h)
		p.holder[k] = h
		ls.removeIfQueued(w)
		p.line[k] = q[1:]
	case action == "take from outside" && p.holder[k] == nil:
		h := p.hold(l, nil)
		ls.onTaken(h)
		p.holder[k] = h
	case action == "give" && p.holder[k] != nil:
		ls.onReleased(p.holder[k])
		ls.onReleased(p.holder[k]) // A second release does no harm.
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
	ls, q := &p.c.queues, p.line[k]
	given := &lease{}
	passed := ls.handOver(p.holder[k], func(*Lock) *lease { return given })
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

func (p *lineTwin) hold(l *Lock, w *waiter) *grant {
	h := newGrant(l, w)
	h.state = stateHeld
	return h
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
		w.lock.client.queues.mu.Lock()
		w.attempting, w.nextAttempt = false, p.c.clock.Now()+time.Hour
		w.lock.client.queues.mu.Unlock()
		_, _, wait = w.untilAttempt()
	}
	require.Positive(p.t, wait)
	p.alert[w] = wait < never
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
		for _, other := range p.c.queues.by {
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
			require.Equal(p.t, i < len(q)-1, p.c.queues.hasFollower(q[i]))
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
			p.c.queues.onReleased(p.holder[k])
		}
		for _, w := range p.line[k] {
			p.c.queues.removeIfQueued(w)
		}
	}
}
