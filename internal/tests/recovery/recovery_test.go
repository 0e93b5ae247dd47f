// Package recovery tests what happens around nodes that lose their memory.
package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// A heal must not count unless the claim on that node was active all the time. Node 3 grants the lock
// to the second client and then loses its memory. The holder's renewal puts its lock back on node 3.
// The holder must not count node 3, as its claim on node 1 expires and the second client gets node 1.
func TestHealCountsOnlyAsReassertion(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		patient := func(cfg *quorumlock.Config) {
			cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = 3300*time.Millisecond, 3300*time.Millisecond
		}
		began := f.Clock.Now()
		at := func(d time.Duration) { time.Sleep(began + d - f.Clock.Now()) }
		h, hWires := f.SpiedClient(patient)
		other, otherWires := f.SpiedClient(patient)
		f.Introduce(h, other)

		hWires[2].Severed.Store(true)
		lease := fleet.MustAcquire(t, h.RedLock("job")) // on 1 and 2
		hWires[0].Severed.Store(true)                   // The holder can no longer renew its claim on node 1.

		at(6800 * time.Millisecond)
		otherWires[0].Slow.Store(int64(3250 * time.Millisecond)) // The request arrives at 10.05 s.
		otherWires[1].Slow.Store(int64(3250 * time.Millisecond))
		won := make(chan *quorumlock.Lease, 1)
		go func() {
			lease, err := other.RedLock("job").TryAcquire(context.Background())
			assert.NoError(t, err)
			won <- lease
		}()
		fleet.Settle()
		require.Equal(t, []string{"job"}, f.Nodes[2].Keys(), "node 3 is granted")
		at(7 * time.Second)
		lose(2)
		hWires[2].Severed.Store(false)

		at(8 * time.Second)
		require.NoError(t, lease.Err())
		have, _ := lease.Backing()
		require.Equal(t, 2, have)
		at(9500 * time.Millisecond)
		require.Equal(t, []string{"job"}, f.Nodes[2].Keys(), "the renewal has put the lock back on node 3")
		next := <-won
		require.NoError(t, next.Err())
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost, "two leases are valid")
		require.Greater(t, next.Token(), lease.Token())
	})
}

// A holder keeps its lease when all nodes lose their memory. Its renewals re-assert its claim on each
// node, as the claim was active all the time.
func TestHolderReassertsItsLockAfterMemoryLosses(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		fleet.ForEachLoss(t, n, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
			lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
			for i := range n {
				lose(i) // All nodes lose their memory, and no client asks in between.
			}
			other := f.Client().RedLock("job")
			for range 100 {
				time.Sleep(time.Second)
				require.NoError(t, lease.Err())
				_ = fleet.MustBeRefused(t, other)
			}
			fleet.Settle() // The undo of the last attempt must arrive before the release, as that attempt could be granted then.
			have, want := lease.Backing()
			require.Equal(t, want, have)
			require.NoError(t, lease.Release(t.Context()))
			next, err := other.TryAcquire(t.Context())
			require.NoError(t, err)
			require.Greater(t, next.Token(), lease.Token())
		})
	}
}

// Nodes restart one after the other, and no client asks in between. None of them grants the lock to a
// second client while the lease lasts.
func TestNoSecondHolderWhenNodesRestartInTurn(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, quorumlock.DefaultTTL / 3} {
		fleet.ForEachLoss(t, 5, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
			holder, wires := f.SpiedClient()
			lease := fleet.MustAcquire(t, holder.RedLock("job"))
			for _, w := range wires {
				w.Severed.Store(true) // The holder's renewals do not reach the nodes either.
			}
			for i := range 3 {
				lose(i)
				time.Sleep(pause)
			}
			other := f.Client().RedLock("job")
			for lease.Err() == nil {
				_ = fleet.MustBeRefused(t, other)
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// A second memory loss during a recovery starts the recovery again.
func TestMemoryLossDuringRecoveryRestartsIt(t *testing.T) {
	fleet.ForEachLoss(t, 1, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		lock := f.Client().RedLock("job")
		lose(0)
		_ = fleet.MustBeRefused(t, lock)
		time.Sleep(fleet.RecoveryTime - time.Second)
		_ = fleet.MustBeRefused(t, lock)
		lose(0)
		began := f.Clock.Now()
		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, f.Clock.Now()-began, fleet.RecoveryTime)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A node fails over to a replica and back. The lock is missing on the replica, and the marker looks as
// if the node had recovered. The node still notices both changes and grants nothing.
func TestFailoverToStaleReplicaAndBack(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		f.Nodes[0].Save() // The replica has the marker, but not the lock.
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		other := f.Client().RedLock("job")
		f.Nodes[0].Crash()
		_ = fleet.MustBeRefused(t, other)
		f.Nodes[0].Save()
		f.Nodes[0].Crash() // The node is back, and looks as if it had recovered.
		_ = fleet.MustBeRefused(t, other)
		time.Sleep(quorumlock.DefaultTTL)
		require.NoError(t, lease.Err())
		_ = fleet.MustBeRefused(t, other)
	})
}

// Two clients find new nodes at the same time. Both wait for the recovery, and only one acquires then.
func TestTwoClientsOnNewNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client().RedLock("job"), f.Client().RedLock("job")
		for _, nd := range f.Nodes {
			nd.Flush()
		}
		leases := make(chan *quorumlock.Lease, 2)
		for _, lock := range []*quorumlock.Lock{a, b} {
			go func() {
				lease, err := lock.Acquire(context.Background())
				assert.NoError(t, err)
				leases <- lease
			}()
		}
		began := f.Clock.Now()
		first := <-leases
		require.GreaterOrEqual(t, f.Clock.Now()-began, fleet.RecoveryTime)
		fleet.Settle()
		require.Empty(t, leases, "the second client still waits")
		require.NoError(t, first.Release(t.Context()))
		second := <-leases
		require.Greater(t, second.Token(), first.Token())
		require.NoError(t, second.Release(t.Context()))
	})
}

func TestTwoAddressesOfOneServerHaveOneVote(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		alias := &fleet.Spy{Node: f.Nodes[0], Alias: "alias"}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[1] = alias }) // n1, n1 again, n3
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err, "two servers of three")
		fleet.Settle()
		have, want := lease.Backing()
		require.Equal(t, []int{2, 3}, []int{have, want})
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()

		f.Stop(2)
		err = fleet.MustBeRefused(t, client.RedLock("job"))
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum, "one server of three")
		require.ErrorIs(t, err, node.ErrSameServer)
		f.RequireNoKeys()

		_, err = admin.Init(t.Context(), quorumlock.Config{Nodes: []node.Node{f.Nodes[0], alias, f.Nodes[1]}})
		require.ErrorIs(t, err, node.ErrSameServer)
	})
}

func TestRecoveryIsReported(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var events []quorumlock.NodeRecoveringEvent
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeRecovering = func(e quorumlock.NodeRecoveringEvent) { events = append(events, e) }
		})
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		f.Nodes[1].Save()
		f.Nodes[1].Crash()
		began := f.Clock.Wall()
		for range 12 {
			require.NoError(t, lease.Extend(t.Context()))
			time.Sleep(time.Second)
		}
		fleet.Settle()
		require.Equal(t, []quorumlock.NodeRecoveringEvent{{
			Node: "n2", Since: began, Until: began.Add(fleet.RecoveryTime), HadMarker: true,
		}}, events)
		f.Nodes[1].Flush()
		require.NoError(t, lease.Extend(t.Context()))
		fleet.Settle()
		require.Len(t, events, 2)
		require.False(t, events[1].HadMarker)

		status, err := client.RedLock("job").Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, fleet.RecoveryTime, status.Nodes[1].Recovering)
		require.Zero(t, status.Nodes[0].Recovering)
	})
}

func TestBackingIsReported(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		told := make(chan string, 100)
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.BackingChanged = func(e quorumlock.BackingEvent) {
				told <- fmt.Sprintf("%d/%d/%d", e.Have, e.Want, e.Need)
			}
		})
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		fleet.Settle()
		require.Empty(t, told, "all nodes back the lease all the time")
		f.Stop(0)
		began := f.Clock.Now()
		require.Equal(t, "4/5/3", <-told)
		require.Less(t, f.Clock.Now()-began, quorumlock.DefaultTTL, "the event comes when the claim expires, not at the next renewal")
		f.Stop(1)
		require.Equal(t, "3/5/3", <-told)
		f.Start(0, 1)
		for event := <-told; event != "5/5/3"; event = <-told {
			require.Equal(t, "4/5/3", event)
		}
		require.NoError(t, lease.Err())
	})
}

// Init opens nodes only if all of them answer, and all are new. Otherwise it opens none of them.
func TestInitOpensOnlyNewNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		cfg := quorumlock.Config{Clock: f.Clock}
		for _, nd := range f.Nodes {
			cfg.Nodes = append(cfg.Nodes, nd)
		}
		report, err := admin.Init(t.Context(), cfg) // The fleet has already done this.
		require.NoError(t, err)
		require.Equal(t, admin.Open, report[2].State)

		f.Nodes[1].Flush()
		report, err = admin.Init(t.Context(), cfg)
		require.ErrorIs(t, err, admin.ErrInUse, "the other nodes are in use")
		require.Equal(t, admin.Recovering, report[1].State)
		require.Equal(t, fleet.RecoveryTime, report[1].Left)
		require.ErrorIs(t, fleet.MustBeRefused(t, f.Client().MultiLock("job")), node.ErrRecovering)

		for _, nd := range f.Nodes {
			nd.Save()
			nd.Crash() // All nodes lose their memory, but keep a marker that shows it.
		}
		_, err = admin.Init(t.Context(), cfg)
		require.ErrorIs(t, err, admin.ErrInUse)

		for _, nd := range f.Nodes {
			nd.Flush()
		}
		f.Nodes[2].Stop()
		report, err = admin.Init(t.Context(), cfg)
		require.ErrorIs(t, err, admin.ErrUnanswered)
		require.ErrorIs(t, err, node.ErrUnreachable)
		require.ErrorIs(t, report[2].Err, node.ErrUnreachable)
		require.Equal(t, admin.Recovering, report[0].State, "nothing was opened")
		f.Nodes[2].Start()
		require.ErrorIs(t, fleet.MustBeRefused(t, f.Client().MultiLock("job")), node.ErrRecovering) // The attempt writes a marker.
		fleet.Settle()

		report, err = admin.Init(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, admin.Opened, report[0].State)

		_, err = admin.Init(nil, cfg) //nolint:staticcheck // the test needs a nil context
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = admin.Init(t.Context(), quorumlock.Config{})
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
	})
}

// A late answer tells of a recovery that the client has reported already. The client does not report it
// again.
func TestLateAnswerReportsNoSecondRecovery(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		told := 0
		client, wires := f.SpiedClient(func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeRecovering = func(quorumlock.NodeRecoveringEvent) { told++ }
		})
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		f.Nodes[0].Flush()
		require.NoError(t, lease.Extend(t.Context()))
		fleet.Settle()
		wires[0].Muted.Store(int64(400 * time.Millisecond))
		require.NoError(t, lease.Extend(t.Context()))
		time.Sleep(time.Second)
		fleet.Settle()
		require.Equal(t, 1, told)
	})
}

// By a slow node's clock, the end of a recovery seems to move. The client does not take this for a second
// recovery.
func TestSlowNodeClockReportsNoSecondRecovery(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Nodes[1] = memory.New("n2", testkit.NewSkewed(f.Clock, 0.997))
		f.Limits = wire.Limits{}
		told := make(map[string]int)
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.MaxTTL = 10 * time.Minute
			cfg.Hooks.NodeRecovering = func(e quorumlock.NodeRecoveringEvent) { told[e.Node]++ }
		})
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		f.Nodes[0].Flush()
		f.Nodes[1].Flush()
		require.NoError(t, lease.Extend(t.Context()))
		time.Sleep(9 * time.Minute)
		fleet.Settle()
		require.NoError(t, lease.Err())
		require.Equal(t, map[string]int{"n1": 1, "n2": 1}, told)
	})
}

// Inspect writes nothing, so a node does not begin its recovery, and the client reports none.
func TestInspectReportsNoRecovery(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		told := 0
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeRecovering = func(quorumlock.NodeRecoveringEvent) { told++ }
		})
		f.Nodes[0].Flush()
		for range 3 {
			status, err := client.RedLock("job").Inspect(t.Context())
			require.NoError(t, err)
			require.True(t, status.Nodes[0].Unmarked, "the recovery has not begun")
			require.Equal(t, fleet.RecoveryTime, status.Nodes[0].Recovering)
			require.False(t, status.Nodes[1].Unmarked)
			time.Sleep(time.Second)
		}
		fleet.Settle()
		require.Zero(t, told)
		_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
		require.Equal(t, 1, told)
		status, err := client.RedLock("job").Inspect(t.Context())
		require.NoError(t, err)
		require.False(t, status.Nodes[0].Unmarked)
	})
}

// A client logs once for each node that the node refuses it because of its clock, although the nodes
// still confirm its renewals.
func TestSkewedClockIsLoggedOncePerNode(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var log strings.Builder
		wrong := testkit.NewSkewed(f.Clock, 1)
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			cfg.Clock = wrong
		})
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		wrong.StepWall(time.Hour)
		for range 5 {
			require.ErrorIs(t, fleet.MustBeRefused(t, client.RedLock("other")), node.ErrClock)
			require.NoError(t, lease.Extend(t.Context()))
			fleet.Settle()
		}
		require.Equal(t, 3, strings.Count(log.String(), "refuses this client"), log.String())
		wrong.StepWall(-time.Hour)
		_ = fleet.AcquireAndRelease(t, client.RedLock("other"))
		require.Equal(t, 3, strings.Count(log.String(), "serves this client again"), log.String())
	})
}

// An Init pauses between its check and its write. It must not open a node that lost its memory in
// between.
func TestInitPausedBetweenCheckAndWrite(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		for _, nd := range f.Nodes {
			nd.Flush()
		}
		late := &lateOpener{Node: f.Nodes[0], checked: make(chan struct{}), proceed: make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			_, err := admin.Init(context.Background(), quorumlock.Config{
				Clock: f.Clock, Nodes: []node.Node{late, f.Nodes[1], f.Nodes[2]},
			})
			done <- err
		}()
		<-late.checked
		time.Sleep(fleet.RecoveryTime) // Meanwhile all nodes open by themselves.
		lease := fleet.MustAcquire(t, f.Client().MultiLock("job"))
		lose(0)
		time.Sleep(time.Millisecond)
		close(late.proceed)
		require.ErrorIs(t, <-done, admin.ErrChanged)
		err := fleet.MustBeRefused(t, f.Client().RedLock("job"))
		require.True(t, errors.Is(err, quorumlock.ErrHeld) || errors.Is(err, node.ErrRecovering))
		require.ErrorIs(t, fleet.MustBeRefused(t, f.Client().MultiLock("another")), node.ErrRecovering)
		require.NoError(t, lease.Err())
	})
}

// Init repeats an Open whose request or answer was lost.
func TestInitRepeatsLostOpen(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		for _, nd := range f.Nodes {
			nd.Flush()
		}
		report, err := admin.Init(t.Context(), quorumlock.Config{Clock: f.Clock, Nodes: []node.Node{
			&lossyOpener{Node: f.Nodes[0], requests: 1}, &lossyOpener{Node: f.Nodes[1], answers: 2}, f.Nodes[2],
		}})
		require.NoError(t, err)
		require.Equal(t, []admin.State{admin.Opened, admin.Opened, admin.Opened},
			[]admin.State{report[0].State, report[1].State, report[2].State})
		_ = fleet.AcquireAndRelease(t, f.Client().MultiLock("job"))
	})
}

// TestInitTellsAllFailures: a node that lost its memory hides no node that did not answer.
func TestInitTellsAllFailures(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		for _, nd := range f.Nodes {
			nd.Flush()
		}
		late := &lateOpener{Node: f.Nodes[0], checked: make(chan struct{}), proceed: make(chan struct{})}
		go func() {
			<-late.checked
			time.Sleep(time.Millisecond)
			f.Nodes[0].Flush()
			close(late.proceed)
		}()
		report, err := admin.Init(t.Context(), quorumlock.Config{
			Clock: f.Clock, Nodes: []node.Node{late, &lossyOpener{Node: f.Nodes[1], requests: 100}, f.Nodes[2]},
		})
		require.ErrorIs(t, err, admin.ErrChanged)
		require.ErrorIs(t, err, admin.ErrUnanswered)
		require.ErrorContains(t, err, report[0].Node)
		require.ErrorContains(t, err, report[1].Node)
		require.Equal(t, admin.Opened, report[2].State)
	})
}

// lossyOpener is a node that loses some requests to open it, and some answers.
type lossyOpener struct {
	node.Node
	requests, answers int // how many are still lost
}

func (s *lossyOpener) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	lost := wire.Reply{Err: &node.Error{Node: s.Name(), Op: ops[0].Kind.String(), Reason: node.ErrTimeout}}
	switch {
	case ops[0].Kind == wire.Open && s.requests > 0:
		s.requests--
		replies[0] = lost
	case ops[0].Kind == wire.Open && s.answers > 0:
		s.answers--
		s.Node.Do(ctx, ops, replies)
		replies[0] = lost
	default:
		s.Node.Do(ctx, ops, replies)
	}
}

type lateOpener struct {
	node.Node
	checked, proceed chan struct{}
}

func (l *lateOpener) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	if ops[0].Kind == wire.Open {
		close(l.checked)
		<-l.proceed
	}
	l.Node.Do(ctx, ops, replies)
}

// The client reports each memory loss during a recovery, and each of them once.
func TestEachMemoryLossDuringRecoveryIsReported(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var untils []time.Duration
		began := f.Clock.Wall()
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeRecovering = func(e quorumlock.NodeRecoveringEvent) { untils = append(untils, e.Until.Sub(began)) }
		})
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		for range 3 {
			f.Nodes[0].Crash()
			for range 3 {
				require.NoError(t, lease.Extend(t.Context()))
				time.Sleep(time.Second)
			}
		}
		fleet.Settle()
		require.Equal(t, []time.Duration{fleet.RecoveryTime, fleet.RecoveryTime + 3*time.Second, fleet.RecoveryTime + 6*time.Second}, untils)
	})
}

// A renewal that puts a lock back on a node also restores the token there.
func TestHealBringsTheToken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		f.Nodes[0].Crash()
		require.NoError(t, lease.Extend(t.Context()))
		fleet.Settle()
		status, err := client.RedLock("job").Inspect(t.Context())
		require.NoError(t, err)
		for _, n := range status.Nodes {
			require.Equal(t, lease.Token(), n.Holders[0].Token, n.Node)
		}
	})
}

// refusing is a node that refuses acquisitions, because of a clock, as long as it is told to.
type refusing struct {
	node.Node
	on atomic.Bool
}

func (r *refusing) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	if ops[0].Kind != wire.Acquire || !r.on.Load() {
		r.Node.Do(ctx, ops, replies)
		return
	}
	for i := range ops {
		err := &node.ClockError{Ahead: time.Hour, Limit: time.Second}
		replies[i] = wire.Reply{Err: &node.Error{Node: r.Name(), Op: ops[i].Kind.String(), Reason: node.ErrClock, Err: err}}
	}
}

// One node refuses the client, and the others are enough for a quorum. Only the log shows the refusal, so
// the client logs it once, and logs once that the refusal has ended.
func TestRefusalIsLoggedOnce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var log strings.Builder
		second := &refusing{Node: f.Nodes[1]}
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Logger, cfg.Nodes[1] = slog.New(slog.NewTextHandler(&log, nil)), second
		})
		second.on.Store(true)
		for range 5 {
			_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
		}
		require.Equal(t, 1, strings.Count(log.String(), "refuses this client"), log.String())
		require.Contains(t, log.String(), "node=n2")
		require.Contains(t, log.String(), "1h0m0s ahead")

		second.on.Store(false)
		_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
		fleet.Settle()
		require.Equal(t, 1, strings.Count(log.String(), "serves this client again"), log.String())
	})
}
