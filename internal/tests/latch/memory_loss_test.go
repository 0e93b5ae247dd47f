package latch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// latchLosses lists the ways in which a node loses its latest writes. "an older state" restarts from the state
// that the test saved.
var latchLosses = map[string]func(f *fleet.Fleet, i int){
	"flush":          func(f *fleet.Fleet, i int) { f.Nodes[i].Flush() },
	"restart":        func(f *fleet.Fleet, i int) { f.Nodes[i].Crash() },
	"an older state": func(f *fleet.Fleet, i int) { f.Nodes[i].Crash() },
}

// forEachLoss runs a test on three nodes with each kind of loss. For "an older state", the nodes save their state when
// the test calls save.
func forEachLoss(t *testing.T, test func(t *testing.T, f *fleet.Fleet, save func(), lose func(i int))) {
	t.Helper()
	for name, lose := range latchLosses {
		t.Run(name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				save := func() {
					for _, nd := range f.Nodes {
						if name == "an older state" {
							nd.Save()
						}
					}
				}
				test(t, f, save, func(i int) { lose(f, i) })
			})
		})
	}
}

// restores requires that the latch still needs this many count-downs. The read notices that a node has lost some, and
// restores them a moment later.
func restores(t *testing.T, l *quorumlock.Latch, want int) {
	t.Helper()
	left(t, l, want)
	time.Sleep(time.Second)
}

// Different majorities read a latch before and after a memory loss. No read may forget a count-down.
func TestLatchReadsAcrossMemoryLoss(t *testing.T) {
	forEachLoss(t, func(t *testing.T, f *fleet.Fleet, save func(), lose func(int)) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		fleet.Settle()
		save()
		f.Stop(2)
		counts(t, l, "x", "y") // These reach the first and the second node.
		fleet.Settle()
		lose(1)
		f.Start(2)
		f.Stop(0)
		time.Sleep(2 * time.Second)
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum, "the nodes that answer may have lost count-downs")
		require.ErrorContains(t, err, "lost its memory")
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &short)
		require.Len(t, short.Nodes, 2)
		for _, n := range short.Nodes {
			var one *node.Error
			require.ErrorAs(t, n.Err, &one, "%v", n.Err)
			require.Equal(t, n.Node, one.Node)
		}
		time.Sleep(f.Limits.Recovery()) // The node may grant again, but its ids are still lost.
		_, err = l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, f.Client().Latch("a").Await(ctx), quorumlock.ErrNoQuorum)

		f.Start(0)
		time.Sleep(2 * time.Second)
		left(t, l, 1)
		f.Stop(0) // The lost ids of the second node have been restored.
		time.Sleep(2 * time.Second)
		left(t, l, 1)
		counts(t, l, "z")
		require.NoError(t, f.Client().Latch("a").Await(t.Context()))
		f.Start(0)
	})
}

// A node forgets that the latch is set, and agrees with a late call that sets another number. Its vote must not outvote
// the nodes that remember.
func TestForgetfulNodeDoesNotSetLatchAnew(t *testing.T) {
	forEachLoss(t, func(t *testing.T, f *fleet.Fleet, save func(), lose func(int)) {
		save()
		f.Stop(2)
		require.NoError(t, f.Client().Latch("a").Set(t.Context(), 3))
		fleet.Settle()
		f.Start(2)
		split(f, "a", 4, 2)
		lose(1)
		f.Stop(0)
		ctx, cancel := context.WithTimeout(t.Context(), 3*f.Limits.Recovery())
		defer cancel()
		l := f.Client().Latch("a")
		require.ErrorIs(t, l.Set(ctx, 4), quorumlock.ErrNoQuorum)
		f.Start(0)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, l.Set(t.Context(), 4), quorumlock.ErrLatchSet)
		require.NoError(t, l.Delete(t.Context()))
		require.NoError(t, l.Set(t.Context(), 4))
		left(t, l, 4)
	})
}

// A client whose clock is ahead deletes a latch, and the clock of one node is behind. If that node knew of the deletion at
// once, a loss of its memory after that would seem to precede it, and count-downs that it forgot would not be missed.
func TestNodeWhoseClockIsBehindForgetsACountDown(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		behind := testkit.NewSkewed(f.Clock, 1)
		behind.StepWall(-950 * time.Millisecond)
		f.Nodes[2] = memory.New("n3", behind)
		f.Limits = wire.Limits{}
		f.SetUp(quorumlock.Config{})
		require.NoError(t, f.Client(fleet.SkewedBy(f, 900*time.Millisecond)).Latch("a").Delete(t.Context()))
		fleet.Settle()
		require.NoError(t, f.Client().Latch("a").Set(t.Context(), 2))
		fleet.Settle()
		left(t, f.Client().Latch("a"), 2)
		f.Stop(1)
		counts(t, f.Client().Latch("a"), "x")
		fleet.Settle()
		f.Nodes[2].Flush()
		f.Start(1)
		f.Stop(0)
		_, err := f.Client().Latch("a").Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum, "the node that forgot the count-down is no witness")
		f.Start(0)
		time.Sleep(2 * time.Second)
		left(t, f.Client().Latch("a"), 1)
	})
}

// A latch that was reported done stays done.
func TestDoneLatchStaysDone(t *testing.T) {
	forEachLoss(t, func(t *testing.T, f *fleet.Fleet, save func(), lose func(int)) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		fleet.Settle()
		save()
		f.Stop(2)
		counts(t, l, "x", "y")
		f.Start(2)
		f.Stop(1)
		time.Sleep(2 * time.Second)
		require.NoError(t, l.Await(t.Context()), "the first node knows both ids, and the client has restored them on the third")
		lose(0)
		time.Sleep(2 * time.Second)
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.Start(1)
		time.Sleep(2 * time.Second)
		left(t, l, 0)
		f.Stop(2)
		time.Sleep(2 * time.Second)
		left(t, l, 0)
		f.Start(2)
	})
}

// One node after the other loses its memory. The waiter restores the lost ids each time.
func TestWaiterRestoresForgottenIDs(t *testing.T) {
	forEachLoss(t, func(t *testing.T, f *fleet.Fleet, save func(), lose func(int)) {
		save()
		l := f.Client().Latch("a")
		const n = 10
		require.NoError(t, l.Set(t.Context(), n))
		done := awaiting(t.Context(), f.Client().Latch("a"))
		for i := range n - 1 {
			counts(t, l, fmt.Sprint(i))
			time.Sleep(2 * time.Second)
			lose(i % 3)
			time.Sleep(2 * time.Second)
			f.Stop((i + 1) % 3)
			left(t, l, n-1-i)
			f.Start((i + 1) % 3)
		}
		waits(t, done)
		counts(t, l, "last")
		require.NoError(t, <-done)
	})
}

// An acquisition has noticed the loss of a node, and a count-down, which that node answers in time, restores it later.
func TestCountDownRestoresForgottenIDs(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, wires := f.SpiedClient()
		require.NoError(t, c.Latch("a").Set(t.Context(), 3))
		counts(t, c.Latch("a"), "x")
		fleet.Settle()
		f.Nodes[1].Flush()
		fleet.AcquireAndRelease(t, c.RedLock("job"))
		wires[2].Slow.Store(int64(time.Millisecond))
		time.Sleep(f.Limits.Recovery())
		counts(t, c.Latch("a"), "y")
		fleet.Settle()
		f.Stop(0)
		left(t, c.Latch("a"), 1)
		f.Start(0)
	})
}

// All nodes but one lost the count-downs, but a waiter has read them. It restores them.
func TestWaiterRestoresIDsThatAMajorityForgot(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		f.Stop(0, 1)
		counts(t, l, "x", "y")
		fleet.Settle()
		done := awaiting(t.Context(), f.Client().Latch("a"))
		waits(t, done)
		f.Start(0, 1) // The latch was set on these nodes before they stopped.
		f.Nodes[2].Flush()
		f.Nodes[3].Flush()
		f.Stop(4)
		time.Sleep(2 * time.Second)
		_, err := f.Client().Latch("a").Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.Start(4)
		time.Sleep(2 * time.Second)
		left(t, f.Client().Latch("a"), 1)
		f.Stop(4)
		time.Sleep(2 * time.Second)
		left(t, f.Client().Latch("a"), 1)
		counts(t, l, "z")
		require.NoError(t, <-done)
		f.Start(4)
	})
}

// One node missed a Delete and another one forgot it. Together they must not bring the latch back.
func TestForgottenDeleteRevivesNoLatch(t *testing.T) {
	forEachLoss(t, func(t *testing.T, f *fleet.Fleet, save func(), lose func(int)) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		counts(t, l, "x", "y")
		fleet.Settle()
		save()
		f.Stop(2)
		deleter := f.Client() // It ends, so it does not tell the third node later.
		require.NoError(t, deleter.Latch("a").Delete(t.Context()))
		require.NoError(t, deleter.Close(t.Context()))
		fleet.Settle()
		lose(1)
		f.Start(2)
		f.Stop(0)
		for range 3 {
			time.Sleep(f.Limits.Recovery())
			_, err := l.Count(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, l.Set(ctx, 2), quorumlock.ErrNoQuorum)
			require.ErrorIs(t, l.Await(ctx), context.DeadlineExceeded)
			cancel()
		}
		f.Start(0)
		time.Sleep(2 * time.Second)
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
		require.NoError(t, l.Set(t.Context(), 2))
		left(t, l, 2)
	})
}

// A node lost its memory before the latch was deleted, and was unreachable from the Delete on. So it lost no count-down
// of the new latch, and counts towards a majority for it.
func TestMemoryLossBeforeMissedDelete(t *testing.T) {
	forEachLoss(t, func(t *testing.T, f *fleet.Fleet, save func(), lose func(int)) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		fleet.Settle()
		save()
		lose(0)
		restores(t, l, 3) // The first node has been restored.
		time.Sleep(f.Limits.Recovery())
		f.Stop(0)
		require.NoError(t, l.Delete(t.Context()))
		require.NoError(t, l.Set(t.Context(), 2))
		counts(t, l, "x")
		fleet.Settle()
		save()
		lose(1)
		f.Start(0)
		time.Sleep(2 * time.Second)
		restores(t, l, 1) // Once all nodes have been read after the loss, the missing ids are restored.
		f.Stop(2)
		time.Sleep(2 * time.Second)
		left(t, l, 1)
		f.Start(2)
	})
}

// The ids of a node were restored after its first memory loss. After a second loss the node must not count as restored.
func TestSecondMemoryLossOfRestoredNode(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		fleet.Settle()
		f.Nodes[1].Flush()
		restores(t, l, 3)
		f.Nodes[1].Save() // The node saves the latch as it was restored after the first loss.
		f.Stop(2)
		counts(t, l, "x")
		fleet.Settle()
		f.Nodes[1].Crash()
		f.Start(2)
		f.Stop(0)
		time.Sleep(2 * time.Second)
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.Start(0)
		time.Sleep(2 * time.Second)
		left(t, l, 2)
	})
}

func TestAllNodesForgetLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		counts(t, l, "x")
		fleet.Settle()
		for i := range 3 {
			f.Nodes[i].Flush()
		}
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum, "no node can know yet that the latch is not set")
		began := f.Clock.Now()
		require.NoError(t, l.Set(t.Context(), 1))
		require.GreaterOrEqual(t, f.Clock.Now()-began, f.Limits.Recovery())
		left(t, l, 1)
	})
}
