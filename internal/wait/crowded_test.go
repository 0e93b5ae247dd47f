package wait

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/node"
)

// slowNode is a node whose exchanges take a while, and from the second one on until the test lets it answer.
type slowNode struct {
	node.Node
	exchanges int
	sent, let chan struct{}
}

func (n *slowNode) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	if n.exchanges++; n.exchanges == 1 {
		time.Sleep(100 * time.Millisecond)
	} else {
		n.sent <- struct{}{}
		<-n.let
	}
	n.Node.Do(ctx, ops, replies)
}

// crowd makes calls wait for the only node of an engine, so that a caller with a patience of 300 ms is told at once
// that the node cannot answer it in time. It returns a context with that patience.
func crowd(t *testing.T, e *lease.Engine, n *slowNode) context.Context {
	t.Helper()
	ask := func() {
		calls := dispatch.NewCalls(1, node.Op{Kind: node.Inspect, Names: []string{"other"}, Limits: e.Limits})
		calls.To(0).To = dispatch.Ignore
		require.NoError(t, e.Nodes.Submit(0, calls.To(0)))
	}
	ask()
	require.Eventually(t, func() bool { return e.Nodes.Latency(0) > 0 }, 10*time.Second, time.Millisecond)
	ask()
	<-n.sent
	for range 200 {
		ask()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// An attempt for permits that is not begun gives its slots back: other attempts of this client may ask for them.
func TestCrowdedAttemptGivesItsSlotsBack(t *testing.T) {
	n := &slowNode{sent: make(chan struct{}, 100), let: make(chan struct{})}
	e := newEngine(t, 1, func(nd node.Node) node.Node { n.Node = nd; return n })
	qs := newQueues(e)
	p := slots.NewPools(1, e.Jitter).Of("jobs")
	s := specOf(1, p.Name())
	s.Slots = &slots.Request{Pool: p, Semaphore: "jobs", Want: 1, Permits: 5}
	chosen := func() []string {
		names, _, ok := s.Slots.Choose(1, nil)
		require.True(t, ok)
		s.Slots.GiveUp(names, false)
		return names
	}
	before := chosen()
	_, _, err := e.Attempt(crowd(t, e, n), s, lease.Request{Began: e.Clock.Now()})
	require.ErrorContains(t, err, "more calls wait")
	require.Equal(t, before, chosen())

	close(n.let)
	qs.Close()
	e.Close()
	e.Nodes.Close()
}

// A woken waiter whose attempt is not begun pauses before it tries again. Otherwise it would try without a pause until
// its context ends.
func TestCrowdedWaiterPauses(t *testing.T) {
	n := &slowNode{sent: make(chan struct{}, 100), let: make(chan struct{})}
	e := newEngine(t, 1, func(nd node.Node) node.Node { n.Node = nd; return n })
	qs := newQueues(e)
	w := qs.newWaiter(specOf(1, "job"), nil)
	w.planNext(lease.Retry{Useful: true}, lease.ErrHeld)
	w.ticket.Begin(e.Clock.Now())
	w.ticket.onWoken(0, e.Clock.Now())
	require.LessOrEqual(t, w.untilDue(e.Clock), time.Duration(0), "an attempt is due")

	_, again, err := w.attempt(crowd(t, e, n))
	require.ErrorContains(t, err, "more calls wait")
	before := e.Clock.Now()
	w.planNext(again, err)
	require.GreaterOrEqual(t, w.ticket.nextAttempt()-before, qs.env.RetryMin/2)

	w.finish(nil)
	close(n.let)
	qs.Close()
	e.Close()
	e.Nodes.Close()
}
