package wait

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// slowNode is a node whose exchanges take a while, and from the second one on until the test lets it answer.
type slowNode struct {
	node.Node
	exchanges int
	sent, let chan struct{}
}

func (n *slowNode) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	if n.exchanges++; n.exchanges == 1 {
		time.Sleep(100 * time.Millisecond)
	} else {
		n.sent <- struct{}{}
		<-n.let
	}
	n.Node.Do(ctx, ops, replies)
}

// overload makes calls wait for the only node of an engine, so that it cannot answer a caller with a patience of 300 ms.
func overload(t *testing.T, e *lease.Engine, n *slowNode) {
	t.Helper()
	ask := func() {
		calls := dispatch.NewCalls(1, wire.Op{Kind: wire.Inspect, Names: []string{"other"}, Limits: e.Limits})
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
}

// inCrowd runs a test with the queues of a client whose callers have a patience of 300 ms at most, in virtual time. The
// only node could not answer them.
func inCrowd(t *testing.T, test func(t *testing.T, qs *Queues)) {
	synctest.Test(t, func(t *testing.T) {
		n := &slowNode{sent: make(chan struct{}, 100), let: make(chan struct{})}
		qs, e := newQueues(t, 1, func(nd node.Node) node.Node { n.Node = nd; return n })
		overload(t, e, n)
		test(t, qs)
		close(n.let)
		qs.Close()
		e.Close()
		e.Nodes.Close()
	})
}

// parkFor parks a new waiter whose context ends after a while.
func parkFor(t *testing.T, qs *Queues, s *lease.Spec, patience time.Duration) *waiter {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := qs.newWaiter(s, nil)
	_, _, wait, _ := w.untilAttempt()
	require.LessOrEqual(t, wait, time.Duration(0), "its turn has come")
	require.True(t, qs.Crowded(ctx, s))
	w.park(ctx)
	return w
}

// Capacity wakes the waiter that can wait longest. When it ends its wait, for whatever reason, it wakes the next. One
// that was not woken wakes nobody.
func TestCapacityWakesParkedWaitersByDeadline(t *testing.T) {
	inCrowd(t, func(t *testing.T, qs *Queues) {
		var parked []*waiter
		for i, patience := range []time.Duration{100, 290, 150, 200, 120} {
			parked = append(parked, parkFor(t, qs, specOf(1, fmt.Sprint("job", i)), patience*time.Millisecond))
		}
		woken := func() (which []int) {
			for i, w := range parked {
				if len(w.signals) > 0 {
					<-w.signals
					which = append(which, i)
				}
			}
			return which
		}
		require.Empty(t, woken())
		qs.OnCapacity()
		require.Equal(t, []int{1}, woken())
		parked[3].unpark()
		require.Empty(t, woken())
		parked[1].unpark()
		require.Equal(t, []int{2}, woken())
		parked[2].unpark()
		qs.OnCapacity()
		require.ElementsMatch(t, []int{0, 4}, woken(), "one by the waiter before, one by the node")
		qs.OnCapacity()
		require.Empty(t, woken())
		for _, w := range parked {
			w.unpark()
			w.finish(nil)
		}
		require.Zero(t, qs.crowd.count.Load())
	})
}

// Capacity that became free just before a waiter was parked has woken others, so the waiter looks again.
func TestParkedWaiterMissesNoCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		qs, e := newQueues(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := qs.newWaiter(specOf(1, "job"), nil)
		_, _, wait, _ := w.untilAttempt()
		require.LessOrEqual(t, wait, time.Duration(0))
		require.False(t, qs.Crowded(ctx, w.spec))
		require.Len(t, w.park(ctx), 1, "it has a signal")
		w.unpark()
		w.finish(nil)
		qs.Close()
		e.Close()
		e.Nodes.Close()
	})
}

// A waiter that was woken and finds no room is parked again, and wakes nobody.
func TestWokenWaiterIsParkedAgain(t *testing.T) {
	inCrowd(t, func(t *testing.T, qs *Queues) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		other := parkFor(t, qs, specOf(1, "other"), 100*time.Millisecond)
		done := make(chan error)
		go func() {
			_, err := qs.Acquire(ctx, specOf(1, "job"), nil)
			done <- err
		}()
		synctest.Wait()
		for range 3 {
			require.EqualValues(t, 2, qs.crowd.count.Load())
			qs.OnCapacity()
			synctest.Wait()
		}
		require.Empty(t, other.signals)
		began := time.Now()
		err := <-done
		require.ErrorContains(t, err, "more calls wait")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 300*time.Millisecond, time.Since(began), "it makes no attempt, and returns when its context ends")
		other.unpark()
		other.finish(nil)
	})
}

// Many calls give up in a crowd, so one must cost little: no attempt and no timer.
func TestGivingUpInACrowdIsCheap(t *testing.T) {
	inCrowd(t, func(t *testing.T, qs *Queues) {
		s := specOf(1, "job")
		giveUp := func(acquire func(context.Context) error) float64 {
			return testing.AllocsPerRun(200, func() { // many, since the race detector makes pools forget at random
				ctx, cancel := context.WithTimeout(t.Context(), 250*time.Microsecond)
				defer cancel()
				require.ErrorIs(t, acquire(ctx), context.DeadlineExceeded)
			})
		}
		own := giveUp(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		all := giveUp(func(ctx context.Context) error { _, err := qs.Acquire(ctx, s, nil); return err })
		t.Logf("%v allocations, and %v of the context", all-own, own)
		require.LessOrEqual(t, all-own, 10.0)
	})
}
