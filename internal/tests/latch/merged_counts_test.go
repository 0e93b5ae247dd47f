package latch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// countWire is a client's connection to a node. It records the ids of count-downs, and delays each
// exchange by a round trip.
type countWire struct {
	node.Node
	mu   sync.Mutex
	sent [][]string
	// hung blocks exchanges until it is closed.
	hung chan struct{}
}

func (w *countWire) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	w.mu.Lock()
	for _, op := range ops {
		if op.Latch != nil && len(op.Latch.IDs) > 0 {
			w.sent = append(w.sent, op.Latch.IDs)
		}
	}
	hung := w.hung
	w.mu.Unlock()
	if hung != nil {
		<-hung
	}
	time.Sleep(roundTrip)
	w.Node.Do(ctx, ops, replies)
}

func (w *countWire) countDowns() [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// hang blocks exchanges until the returned function is called.
func (w *countWire) hang() (release func()) {
	hung := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hung = hung
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hung = nil
		close(hung)
	}
}

// wiredClient returns a client with a countWire to each node.
func wiredClient(f *fleet.Fleet) (*quorumlock.Client, []*countWire) {
	var wires []*countWire
	client := f.Client(func(cfg *quorumlock.Config) {
		for i := range cfg.Nodes {
			wires = append(wires, &countWire{Node: cfg.Nodes[i]})
			cfg.Nodes[i] = wires[i]
		}
	})
	return client, wires
}

const roundTrip = 5 * time.Millisecond

// Count-downs that are called while another one is in flight are sent together. Each node runs one command for all of
// them.
func TestConcurrentCountDownsShareOneCommand(t *testing.T) {
	const callers = 64
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := wiredClient(f)
		l := client.Latch("a")
		require.NoError(t, l.Set(t.Context(), callers))
		took := f.Elapsed(func() { countTogether(t, l, 0, callers) })
		require.LessOrEqual(t, took, 2*roundTrip, "one round trip for the first, and one for all others")
		for i, w := range wires {
			require.LessOrEqual(t, len(w.countDowns()), 2, "commands on node %d for %d count-downs", i, callers)
		}
		left(t, f.Client().Latch("a"), 0)
	})
}

func TestLoneCountDownIsSentAtOnce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := wiredClient(f)
		l := client.Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		for i := range 3 {
			require.Equal(t, roundTrip, f.Elapsed(func() { require.NoError(t, l.CountDown(t.Context(), fmt.Sprint(i))) }))
		}
		for _, w := range wires {
			require.Equal(t, [][]string{{"0"}, {"1"}, {"2"}}, w.countDowns())
		}
	})
}

// No command has more than MaxListed ids.
func TestManyCountDownsAreSplitIntoCommands(t *testing.T) {
	const callers = 2*node.MaxListed + 500
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := wiredClient(f)
		l := client.Latch("a")
		require.NoError(t, l.Set(t.Context(), callers))
		countTogether(t, l, 0, callers)
		for _, w := range wires {
			require.LessOrEqual(t, len(w.countDowns()), 4)
			for _, ids := range w.countDowns() {
				require.LessOrEqual(t, len(ids), node.MaxListed)
			}
		}
		left(t, f.Client().Latch("a"), 0)
	})
}

// Count-downs of different latches, or with different TTLs, are sent separately.
func TestCountDownsOfOtherLatchesAreNotMerged(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := wiredClient(f)
		a, b := client.Latch("a"), client.Latch("b")
		short := a.With(quorumlock.LatchOptions{TTL: time.Minute})
		require.NoError(t, a.Set(t.Context(), 10))
		require.NoError(t, b.Set(t.Context(), 10))
		var all sync.WaitGroup
		for _, l := range []*quorumlock.Latch{a, b, short} {
			all.Go(func() { assert.NoError(t, l.CountDown(t.Context(), l.Name())) })
		}
		all.Wait()
		require.Len(t, wires[0].countDowns(), 3)
		left(t, a, 9)
		left(t, b, 9)
	})
}

// One of several waiting callers gives up. Its id is not sent, and the others are not affected.
func TestCancelledCountDownDoesNotAffectOthers(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := wiredClient(f)
		l := client.Latch("a")
		require.NoError(t, l.Set(t.Context(), 10))
		release := []func(){wires[0].hang(), wires[1].hang()}
		ctx, giveUp := context.WithCancel(t.Context())
		results := make(map[string]chan error)
		count := func(ctx context.Context, id string) {
			results[id] = make(chan error, 1)
			go func() { results[id] <- l.CountDown(ctx, id) }()
			synctest.Wait()
		}
		count(t.Context(), "first")
		count(t.Context(), "waits")
		count(ctx, "gives up")
		giveUp()
		err := <-results["gives up"]
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		for _, r := range release {
			r()
		}
		require.NoError(t, <-results["first"])
		require.NoError(t, <-results["waits"])
		for _, w := range wires {
			require.Equal(t, [][]string{{"first"}, {"waits"}}, w.countDowns(), "the id of the cancelled caller must not be sent")
		}
		left(t, l, 8)
	})
}

// All waiting callers give up. Later callers do not wait for them.
func TestCountDownsContinueAfterAllWaitersGaveUp(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := wiredClient(f)
		l := client.Latch("a")
		require.NoError(t, l.Set(t.Context(), 10))
		var releases []func()
		for _, w := range wires {
			releases = append(releases, w.hang())
		}
		ctx, giveUp := context.WithTimeout(t.Context(), roundTrip)
		defer giveUp()
		var early sync.WaitGroup
		for i := range 3 {
			early.Go(func() { assert.ErrorIs(t, l.CountDown(ctx, fmt.Sprint(i)), context.DeadlineExceeded) })
			synctest.Wait()
		}
		early.Wait()
		for _, release := range releases {
			release()
		}
		require.NoError(t, l.CountDown(t.Context(), "later"))
	})
}
