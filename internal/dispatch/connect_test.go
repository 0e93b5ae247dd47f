package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// linked is a node that is connected, and takes a millisecond for each exchange.
type linked struct{ scripted }

func (*linked) Connected() bool { return true }

func (l *linked) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	time.Sleep(time.Millisecond)
	l.scripted.Do(ctx, ops, replies)
}

// restless is a receiver that asks again at each answer, so the queue of its sender is never empty.
type restless struct {
	s    *sender
	stop atomic.Bool
}

func (r *restless) Answer(c *Call, _ *wire.Reply) {
	if !r.stop.Load() {
		_ = r.s.submit(&Call{Op: c.Op, To: r})
	}
}

// A Connect does not wait for the end of the queue.
func TestConnectToABusyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd := &linked{}
		n := newNodes(&events{}, nd)
		defer n.Close()
		r := &restless{s: n.senders[0]}
		defer r.stop.Store(true)
		require.NoError(t, n.Submit(0, &Call{Op: &wire.Op{Kind: wire.Acquire, Owner: "x"}, To: r}))
		time.Sleep(10 * time.Millisecond)
		told := make(chan Connection, 1)
		n.Connect(0, told)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Len(t, told, 1)
		require.NoError(t, (<-told).Err)
		require.Zero(t, nd.probes, "the node is connected")
	})
}

// The failure of an exchange that began before says nothing about connecting. So the node is probed at once.
func TestConnectDuringAnExchangeThatFails(t *testing.T) {
	for _, reachable := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			nd, a := &linked{}, &answers{}
			n := newNodes(&events{}, nd)
			defer n.Close()
			gate := make(chan struct{})
			nd.set(gate, node.ErrTimeout)
			require.NoError(t, n.Submit(0, ask(a, "fails")))
			time.Sleep(2 * time.Millisecond)
			told := make(chan Connection, 1)
			n.Connect(0, told)
			require.NoError(t, n.Submit(0, ask(a, "queued")))
			if reachable {
				nd.set(nil, nil)
			}
			close(gate)
			synctest.Wait()
			require.ErrorIs(t, a.of(t, "fails").Err, node.ErrTimeout)
			require.ErrorIs(t, a.of(t, "queued").Err, node.ErrDown)
			require.Len(t, told, 1)
			if err := (<-told).Err; reachable {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, node.ErrTimeout)
			}
			require.Equal(t, 1, nd.probes)
			s := n.senders[0]
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Zero(t, s.workers)
		})
	}
}

// ConnectTimeout bounds a Connect also while an exchange hangs, and if it comes when that is overdue.
func TestConnectDuringAnExchangeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, a := &linked{}, &answers{}
		n := newNodes(&events{}, nd)
		defer n.Close()
		gate := make(chan struct{})
		defer close(gate)
		nd.set(gate, nil)
		require.NoError(t, n.Submit(0, ask(a, "hangs")))
		synctest.Wait() // the exchange has begun
		for range 2 {
			told := make(chan Connection, 1)
			n.Connect(0, told)
			time.Sleep(time.Second - 1)
			synctest.Wait()
			require.Empty(t, told)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Len(t, told, 1)
			err := (<-told).Err
			require.ErrorIs(t, err, node.ErrTimeout)
			require.ErrorIs(t, err, ErrConnecting)
		}
		nd.set(nil, nil)
	})
}

// An exchange without an answer tells nothing about the round trip, though the node does not count as down for it.
func TestBrokenExchangeHasNoRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, a := &linked{}, &answers{}
		n := newNodes(&events{}, nd)
		defer n.Close()
		require.NoError(t, n.Submit(0, ask(a, "quick")))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		before := n.Latency(0)
		require.Equal(t, time.Millisecond, before)
		gate := make(chan struct{})
		nd.set(gate, node.ErrUnreachable)
		require.NoError(t, n.Submit(0, ask(a, "broken")))
		time.Sleep(timeoutMin / 2)
		nd.set(nil, nil)
		close(gate)
		synctest.Wait()
		require.ErrorIs(t, a.of(t, "broken").Err, node.ErrUnreachable)
		require.Equal(t, before, n.Latency(0))
	})
}

// slow is a node whose probes take long, since they connect.
type slow struct{ linked }

func (s *slow) Probe(ctx context.Context) error {
	time.Sleep(timeoutMin / 2)
	return s.linked.Probe(ctx)
}

// The probe of a node that is down may connect to it, which takes several round trips.
func TestProbeHasNoRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd, a, e := &slow{}, &answers{}, &events{}
		n := newNodes(e, nd)
		defer n.Close()
		require.NoError(t, n.Submit(0, ask(a, "quick")))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, time.Millisecond, n.Latency(0))
		nd.set(nil, node.ErrTimeout)
		require.NoError(t, n.Submit(0, ask(a, "fails")))
		time.Sleep(probePauseMax)
		nd.set(nil, nil)
		require.NoError(t, n.Submit(0, ask(a, "again")))
		time.Sleep(timeoutMin)
		synctest.Wait()
		require.Equal(t, wire.Granted, a.of(t, "again").Outcome)
		require.Len(t, e.news, 2)
		require.Contains(t, e.news[1], "up")
		require.Equal(t, time.Millisecond, n.Latency(0))
	})
}

// flaky is a node far away whose connection comes and goes.
type flaky struct {
	*far
	connected atomic.Bool
}

func (f *flaky) Connected() bool { return f.connected.Load() }

// Two exchanges break together. The node counts as down for the first one. That it seems to be connected when
// the second is settled does not make it answer.
func TestBrokenExchangeBringsNoNodeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, nd := &events{}, &flaky{far: newFar(t, 4*time.Millisecond)}
		nd.connected.Store(true)
		n := newNodes(e, nd)
		defer n.Close()
		r := &timed{came: make(map[*Call]time.Time)}
		r.submit(t, n.senders[0], "first")
		time.Sleep(10 * time.Millisecond)
		nd.set(nil, node.ErrUnreachable)
		r.submit(t, n.senders[0], "a")
		time.Sleep(time.Millisecond)
		r.submit(t, n.senders[0], "b")
		time.Sleep(time.Millisecond)
		nd.connected.Store(false)
		time.Sleep(2500 * time.Microsecond) // "a" has failed
		nd.connected.Store(true)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Len(t, r.took, 3)
		require.Len(t, e.news, 1)
		require.Contains(t, e.news[0], "down")
		nd.set(nil, nil)
	})
}
