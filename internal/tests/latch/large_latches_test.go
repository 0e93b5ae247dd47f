package latch_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// idCounter is a node that counts the latch ids in its answers (read) and in operations (written).
type idCounter struct {
	node.Node
	t             *testing.T
	read, written *atomic.Int64
}

func (n idCounter) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	n.Node.Do(ctx, ops, replies)
	for i := range ops {
		if ops[i].Latch != nil {
			assert.LessOrEqual(n.t, len(ops[i].Latch.IDs), node.MaxListed, "ids in one operation")
			n.written.Add(int64(len(ops[i].Latch.IDs)))
		}
		if replies[i].Latch != nil {
			assert.LessOrEqual(n.t, len(replies[i].Latch.IDs), node.MaxListed, "ids in one answer")
			n.read.Add(int64(len(replies[i].Latch.IDs)))
		}
	}
}

// countingIDs returns a change of a client's configuration that counts the ids.
func countingIDs(t *testing.T, read, written *atomic.Int64) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		for i := range cfg.Nodes {
			cfg.Nodes[i] = idCounter{cfg.Nodes[i], t, read, written}
		}
	}
}

// startWaiters starts n clients that wait for a latch. It counts the ids that they read, and the ids that they
// write back.
func startWaiters(t *testing.T, f *fleet.Fleet, n int) (done []<-chan error, read, written *atomic.Int64) {
	read, written = new(atomic.Int64), new(atomic.Int64)
	for range n {
		done = append(done, awaiting(t.Context(), f.Client(countingIDs(t, read, written)).Latch("a")))
	}
	return done, read, written
}

// countTogether counts a latch down with many ids concurrently.
func countTogether(t *testing.T, l *quorumlock.Latch, from, to int) {
	t.Helper()
	var all sync.WaitGroup
	for i := from; i < to; i++ {
		all.Go(func() { assert.NoError(t, l.CountDown(t.Context(), fmt.Sprint("id ", i))) })
	}
	all.Wait()
}

const (
	largeLatch   = 3 * node.MaxListed
	manyWaiters  = 8
	oneStep      = 100
	betweenSteps = 2 * time.Second
)

// While no node lacks ids, waiters read only the number of ids of each node, and not the ids. They read ids only when
// the latch may be done.
func TestWaitersReadSizesOfLargeLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		done, read, written := startWaiters(t, f, manyWaiters)
		for i := 0; i < largeLatch; i += oneStep {
			countTogether(t, l, i, i+oneStep)
			time.Sleep(betweenSteps) // The waiters poll meanwhile.
		}
		took := f.Elapsed(func() {
			for _, d := range done {
				require.NoError(t, <-d)
			}
		})
		require.LessOrEqual(t, took, time.Second)
		// From two thirds on, the sizes no longer rule out that the latch is done. Each waiter then
		// reads each id at most once from each node.
		require.LessOrEqual(t, read.Load(), int64(manyWaiters*largeLatch*len(f.Nodes)))
		require.Zero(t, written.Load())
		t.Logf("%d ids were read by %d waiters for a latch of %d", read.Load(), manyWaiters, largeLatch)
	})
}

// Many clients wait for a latch that counts down slowly. While the sizes grow, no waiter reads ids, although the sizes
// do not rule out for ten seconds that the latch is done.
func TestWaitersReadNoIDsWhileALargeLatchGrows(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		done, read, _ := startWaiters(t, f, 64)
		for i := 0; i < largeLatch; i += 10 {
			countTogether(t, l, i, i+10)
			time.Sleep(100 * time.Millisecond)
		}
		for _, d := range done {
			require.NoError(t, <-d)
		}
		require.Zero(t, read.Load(), "ids that the waiters read")
	})
}

// Each node lacks ids of a latch that is done, and many clients wait for it. Few of them read the ids, as
// one reader restores them for all.
func TestFewOfManyWaitersMergeIDsOfLargeLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const waiters = 64
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		fleet.Settle()
		const part = largeLatch / 3
		for i := range f.Nodes {
			f.Stop(i)
			countTogether(t, l, i*part, (i+1)*part)
			f.Start(i)
			time.Sleep(time.Second)
		}
		done, read, _ := startWaiters(t, f, waiters)
		took := f.Elapsed(func() {
			for _, d := range done {
				require.NoError(t, <-d)
			}
		})
		require.LessOrEqual(t, took, 2*time.Second)
		const all = 2 * largeLatch // that the nodes have together
		require.LessOrEqual(t, read.Load(), int64(all*waiters/2), "ids that the waiters read")
		require.Positive(t, read.Load())
		t.Logf("%d ids were read by %d waiters, %v times all", read.Load(), waiters, float64(read.Load())/all)
	})
}

// A waiter for a large latch glances at it about once a second while nothing happens.
func TestWaiterForLargeLatchPollsRarely(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, last := latchEvents(f)
		l := c.Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		last()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, l.Await(ctx), context.DeadlineExceeded)
		require.InDelta(t, 70, last().Rounds, 12)
	})
}

// Many clients wait for a large latch when a node loses its memory. Few of them restore it.
func TestFewOfManyWaitersRestoreALargeLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const waiters = 64
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		const some = largeLatch / 2
		countTogether(t, l, 0, some)
		done, read, written := startWaiters(t, f, waiters)
		time.Sleep(5 * time.Second)
		require.Zero(t, read.Load())
		f.Nodes[0].Flush()
		time.Sleep(4 * time.Second)
		require.GreaterOrEqual(t, written.Load(), int64(some), "the waiters have restored the latch")
		require.LessOrEqual(t, read.Load(), int64(3*some*waiters/2), "ids that the waiters read")
		t.Logf("%d ids were read and %d written by %d waiters", read.Load(), written.Load(), waiters)
		f.Stop(1)
		countTogether(t, l, some, largeLatch)
		for _, d := range done {
			require.NoError(t, <-d)
		}
		f.Start(1)
	})
}

// Each node lacks ids that other nodes have. Each waiter reads each id of a node at most once, and writes missing ids
// back to the nodes.
func TestWaitersMergeIDsOfLargeLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		fleet.Settle()
		done, read, written := startWaiters(t, f, manyWaiters)
		const part = largeLatch / 3
		for i := range f.Nodes {
			f.Stop(i)
			countTogether(t, l, i*part, (i+1)*part)
			f.Start(i)
			time.Sleep(30 * time.Second)
		}
		took := f.Elapsed(func() {
			for _, d := range done {
				require.NoError(t, <-d)
			}
		})
		require.Zero(t, took, "the waiters have returned by then")
		require.LessOrEqual(t, read.Load(), int64(manyWaiters*largeLatch*len(f.Nodes)))
		require.LessOrEqual(t, written.Load(), int64(manyWaiters*largeLatch*len(f.Nodes)))
		left(t, l, 0)
	})
}

// A node lost a large latch. Its ids are restored in several operations, and then the node counts again.
func TestLargeLatchIsRestoredInPieces(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var read, written atomic.Int64
		l := f.Client(countingIDs(t, &read, &written)).Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		countTogether(t, l, 0, largeLatch-1)
		fleet.Settle()
		written.Store(0)
		f.Nodes[0].Flush()
		time.Sleep(2 * time.Second)
		restores(t, l, 1)
		require.EqualValues(t, largeLatch-1, written.Load(), "each id is restored once")
		require.LessOrEqual(t, read.Load(), int64(2*largeLatch*len(f.Nodes)))
		f.Stop(1)
		left(t, l, 1)
		countTogether(t, l, 0, 10) // Count the same ids once more.
		left(t, l, 1)
		countTogether(t, l, largeLatch, largeLatch+1)
		require.NoError(t, l.Await(t.Context()))
		f.Start(1)
	})
}
