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

// idCounter counts the ids of latches that a node and its clients send each other.
type idCounter struct {
	node.Node
	t           *testing.T
	told, given *atomic.Int64
}

func (n idCounter) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	n.Node.Do(ctx, ops, replies)
	for i := range ops {
		if ops[i].Latch != nil {
			assert.LessOrEqual(n.t, len(ops[i].Latch.IDs), node.MaxListed, "in one operation")
			n.given.Add(int64(len(ops[i].Latch.IDs)))
		}
		if replies[i].Latch != nil {
			assert.LessOrEqual(n.t, len(replies[i].Latch.IDs), node.MaxListed, "in one answer")
			n.told.Add(int64(len(replies[i].Latch.IDs)))
		}
	}
}

// countingIDs returns a change of the configuration under which a client counts the ids.
func countingIDs(t *testing.T, told, given *atomic.Int64) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		for i := range cfg.Nodes {
			cfg.Nodes[i] = idCounter{cfg.Nodes[i], t, told, given}
		}
	}
}

// crowdOfWaiters starts n clients that wait for a latch. It counts the ids that they read and write
// back.
func crowdOfWaiters(t *testing.T, f *fleet.Fleet, n int) (done []<-chan error, told, given *atomic.Int64) {
	told, given = new(atomic.Int64), new(atomic.Int64)
	for range n {
		done = append(done, awaiting(t.Context(), f.Client(countingIDs(t, told, given)).Latch("a")))
	}
	return done, told, given
}

// countTogether counts a latch down with many ids at once.
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

// Waiters read no ids while no node lacks any, however long the latch lives.
func TestWaitersReadSizesOfALargeLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		done, told, given := crowdOfWaiters(t, f, manyWaiters)
		for i := 0; i < largeLatch; i += oneStep {
			countTogether(t, l, i, i+oneStep)
			time.Sleep(betweenSteps) // The waiters look meanwhile.
		}
		took := f.Elapsed(func() {
			for _, d := range done {
				require.NoError(t, <-d)
			}
		})
		require.LessOrEqual(t, took, time.Second)
		// From two thirds on, the sizes no longer rule out that the latch is done. Each waiter then
		// reads each id at most once from each node.
		require.LessOrEqual(t, told.Load(), int64(manyWaiters*largeLatch*len(f.Nodes)))
		require.Zero(t, given.Load())
		t.Logf("%d ids were read by %d who waited for %d", told.Load(), manyWaiters, largeLatch)
	})
}

// Each node lacks ids that other nodes have. Each waiter reads each id of a node once, and writes
// missing ids back to the nodes.
func TestWaitersPutALargeLatchTogether(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		fleet.Settle()
		done, told, given := crowdOfWaiters(t, f, manyWaiters)
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
		require.Zero(t, took, "it was done by then")
		require.LessOrEqual(t, told.Load(), int64(manyWaiters*largeLatch*len(f.Nodes)))
		require.LessOrEqual(t, given.Load(), int64(manyWaiters*largeLatch*len(f.Nodes)))
		left(t, l, 0)
	})
}

// A node that forgot a large latch is given it back in pieces. After that the node counts again.
func TestALargeLatchIsGivenBackInPieces(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var told, given atomic.Int64
		l := f.Client(countingIDs(t, &told, &given)).Latch("a")
		require.NoError(t, l.Set(t.Context(), largeLatch))
		countTogether(t, l, 0, largeLatch-1)
		fleet.Settle()
		given.Store(0)
		f.Nodes[0].Flush()
		time.Sleep(2 * time.Second)
		left(t, l, 1)
		fleet.Settle()
		require.EqualValues(t, largeLatch-1, given.Load(), "once")
		require.LessOrEqual(t, told.Load(), int64(2*largeLatch*len(f.Nodes)))
		f.Stop(1)
		left(t, l, 1)
		countTogether(t, l, 0, 10) // Count the same ids once more.
		left(t, l, 1)
		countTogether(t, l, largeLatch, largeLatch+1)
		require.NoError(t, l.Await(t.Context()))
		f.Start(1)
	})
}
