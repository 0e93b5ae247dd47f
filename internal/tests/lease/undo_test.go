package lease_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// The third node denies, and its answer is late. Meanwhile its lock is freed and a renewal follows. The renewal
// puts the lock on that node, and the release must remove it there.
func TestRenewalBehindLateDenialHeals(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, gs := f.SpiedClient()
		f.Take("job", "x", 2)
		ran, proceed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		gs[2].Set(func(s *fleet.Spy) { s.After = func([]wire.Op) { once.Do(func() { close(ran); <-proceed }) } })
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		<-ran // The third node has denied, and its answer is in flight.
		f.Free("job", "x", 2)
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(t.Context()) }()
		fleet.Settle()
		close(proceed)
		require.NoError(t, <-extended)
		fleet.Settle()
		have, _ := lease.Backing()
		t.Log("backing", have)
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A client sends its second proposal only to some nodes, as one node has failed meanwhile. The undo must also
// reach the nodes that granted only the first proposal.
func TestPartialSecondProposalLeavesNoKeys(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, gs := f.SpiedClient(func(cfg *quorumlock.Config) {
			cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = 100*time.Millisecond, 500*time.Millisecond
		})
		warm, err := c.MultiLock("warm").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, warm.Release(t.Context()))
		fleet.Settle()
		// The first node knows a larger token of the name.
		f.Do(0, wire.Granted, wire.Op{
			Kind: wire.Acquire, Names: []string{"job"}, Owner: "x:1", TTL: time.Second,
			Token: uint64(f.Clock.Wall().Add(500 * time.Millisecond).UnixMicro()),
		})
		f.Free("job", "x:1", 0)
		// The first node is slow, and meanwhile the second node fails.
		var once sync.Once
		ran, proceed := make(chan struct{}), make(chan struct{})
		gs[0].Set(func(s *fleet.Spy) { s.After = func([]wire.Op) { once.Do(func() { close(ran); <-proceed }) } })
		tried := make(chan error, 1)
		go func() { _, err := c.MultiLock("job").TryAcquire(t.Context()); tried <- err }()
		<-ran
		fleet.Settle() // The other nodes have granted.
		f.Stop(1)
		_, err = c.MultiLock("other").With(quorumlock.LockOptions{Spin: true}).TryAcquire(t.Context())
		require.Error(t, err)
		fleet.Settle()
		close(proceed)
		t.Log(<-tried)
		f.Start(1)
		fleet.Settle()
		for i, nd := range f.Nodes {
			t.Log(i, nd.Keys())
		}
		time.Sleep(2 * time.Second)
		for i, nd := range f.Nodes {
			t.Log("2 s later", i, nd.Keys())
		}
		f.RequireNoKeys()
	})
}

// A node was unreachable, and the undo of an attempt is repeated there later. It must not put the waiter, which
// has left, into the queue again.
func TestLateUndoQueuesNoDepartedWaiter(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, gs := f.SpiedClient()
		f.Client()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		w := fleet.StartAcquire(ctx, t, c.RedLock("job"))
		require.True(t, w.Waits())
		// The third node grants the next attempt, and is then unreachable.
		f.Free("job", before.Owner(), 2)
		var once sync.Once
		stop := fleet.OnAcquire(func() { once.Do(func() { f.Stop(2) }) })
		gs[2].Set(func(s *fleet.Spy) { s.After = stop })
		time.Sleep(1500 * time.Millisecond)
		cancel()
		<-w.Done
		require.NoError(t, before.Release(t.Context()))
		time.Sleep(6 * time.Second)
		f.Start(2)
		time.Sleep(time.Second)
		f.RequireNoKeys()
		// Otherwise the queue has a waiter that left 7 s ago.
		f.Do(2, wire.Granted, wire.Op{Kind: wire.Acquire, Names: []string{"job"}, Owner: "stranger:1", TTL: time.Second, Fair: true})
	})
}

func TestReleaseReachesANodeThatIsDownWhileHeld(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		lease := fleet.MustAcquire(t, c.RedLock("job"))
		f.Stop(2)
		time.Sleep(4 * time.Second) // The client cannot send a renewal to this node.
		require.NoError(t, lease.Release(t.Context()))
		f.Start(2)
		time.Sleep(time.Second)
		f.RequireNoKeys()
	})
}

// An extended lease, or one with a MinHold, may last on a node for much longer than its TTL. Its release is repeated for that long.
func TestReleaseReachesANodeThatKeepsTheLockForLong(t *testing.T) {
	const longest = 5 * time.Minute
	for _, o := range []quorumlock.LockOptions{{TTL: time.Second, Fixed: true}, {TTL: time.Second, MinHold: longest * 9 / 10}} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			c := f.Client(func(cfg *quorumlock.Config) { cfg.MaxTTL = longest })
			lease := fleet.MustAcquire(t, c.RedLock("job").With(o))
			if o.Fixed {
				require.NoError(t, lease.ExtendFor(t.Context(), longest))
			}
			fleet.Settle()
			f.Stop(2)
			lease.WaiveMinHold()
			require.NoError(t, lease.Release(t.Context()))
			time.Sleep(longest / 2)
			f.Start(2)
			require.Equal(t, 1, f.Keys())
			time.Sleep(10 * time.Second)
			f.RequireNoKeys()
		})
	}
}

// An acquisition that waits for a busy node until its deadline may wait before a renewal.
func TestReleaseReachesANodeThatOnlyGotTheRenewal(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, wires := f.SpiedClient()
		fleet.AcquireAndRelease(t, c.RedLock("other"))
		fleet.Settle()
		wires[2].Set(func(s *fleet.Spy) { s.Before = func([]wire.Op) { time.Sleep(220 * time.Millisecond) } })
		busy := fleet.MustAcquire(t, c.RedLock("busy"))
		lease := fleet.MustAcquire(t, c.RedLock("job").With(quorumlock.LockOptions{TTL: 600 * time.Millisecond}))
		time.Sleep(210 * time.Millisecond)
		wires[2].Set(func(s *fleet.Spy) { s.Before = nil })
		time.Sleep(20 * time.Millisecond)
		require.Contains(t, f.Nodes[2].Keys(), "job")
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, busy.Release(t.Context()))
		f.RequireNoKeys()
	})
}

func TestReleaseReachesAHealedNode(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		f.Stop(2)
		_, _ = c.RedLock("other").Inspect(t.Context()) // from now on it is refused unsent
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		f.Start(2)
		time.Sleep(8 * time.Second)
		require.Equal(t, 3, f.Keys())
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A node was down and never asked, so it does not have the lock. It counts as released.
func TestReleaseCountsNodeThatWasNeverAsked(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		f.Stop(2)
		_, _ = c.RedLock("other").Inspect(t.Context())
		fleet.Settle() // Until the client has noted that n3 is down, it would still ask it.
		lease := fleet.MustAcquire(t, c.RedLock("job"))
		f.Stop(1)
		require.NoError(t, lease.Release(t.Context()), "n1 has confirmed, and n3 never had the lock")
	})
}

// A TryAcquire is denied while a slow node has not answered it. The holder releases, and the same client tries again. Its
// first attempt may have been granted late on the slow node. The undo of that grant goes ahead of the second attempt, so
// the first never denies the second, however slow the request or the answer is.
func TestOwnLateAttemptDoesNotDenyTheNext(t *testing.T) {
	const ms = time.Millisecond
	delays := []time.Duration{0, 20 * ms, 100 * ms, 300 * ms}
	late, granted := 0, 0
	try := func(t *testing.T, f *fleet.Fleet, all bool, slow, muted, pause time.Duration) {
		held := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, wires := f.SpiedClient(func(cfg *quorumlock.Config) { cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = 150*ms, 250*ms })
		fleet.AcquireAndRelease(t, c.RedLock("warm"))
		fleet.Settle()
		job := c.MultiLock("job")
		if !all {
			job = c.RedLock("job")
			wires[1].Severed.Store(true) // so the slow node is needed
		}
		wires[2].Slow.Store(int64(slow))
		wires[2].Muted.Store(int64(muted))
		_, err := job.TryAcquire(t.Context())
		require.Error(t, err)
		require.NoError(t, held.Release(t.Context()))
		fleet.Settle() // Wait until all nodes have released it.
		time.Sleep(pause)
		if len(f.Nodes[2].Keys()) > 0 {
			late++
		}
		lease, err := job.TryAcquire(t.Context())
		require.NotErrorIs(t, err, quorumlock.ErrHeld)
		if err == nil {
			granted++
			require.NoError(t, lease.Release(t.Context()))
		}
		time.Sleep(2 * time.Second)
		f.RequireNoKeys()
	}
	for _, all := range []bool{true, false} {
		for _, slow := range delays {
			for _, muted := range delays {
				for _, pause := range []time.Duration{0, 10 * ms, 30 * ms, 110 * ms, 210 * ms, 320 * ms, 450 * ms} {
					fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) { try(t, f, all, slow, muted, pause) })
				}
			}
		}
	}
	t.Logf("%d late grants were on the slow node when the next attempt began, and %d attempts were granted", late, granted)
	require.Positive(t, late)
	require.Positive(t, granted)
}

// forbidding is a node whose server refuses operations, as its user lacks a right.
type forbidding struct {
	node.Node
	text  string
	undos atomic.Int32
}

func (n *forbidding) Do(_ context.Context, ops []wire.Op, replies []wire.Reply) {
	for i, op := range ops {
		switch op.Kind {
		case wire.Enlist:
			replies[i] = wire.Reply{Outcome: wire.Inspected, List: &wire.ListReply{ID: n.Name()}}
			continue
		case wire.Release:
			n.undos.Add(1)
		}
		replies[i] = wire.Reply{Err: &node.Error{Node: n.Name(), Op: op.Kind.String(), Reason: node.ErrAuth, Err: errors.New(n.text)}}
	}
}

// A server that refuses the command of an acquisition has run nothing, so there is nothing to undo. A script that lacks
// a right may have written before, so it is undone, again and again.
func TestForbiddenCommandIsNotUndone(t *testing.T) {
	for text, undone := range map[string]bool{
		"NOPERM User u has no permissions to run the 'evalsha' command":                     false,
		"ERR ACL failure in script: User u has no permissions to run the 'pexpire' command": true,
	} {
		t.Run(text, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				nodes := make([]*forbidding, len(f.Nodes))
				c := f.Client(func(cfg *quorumlock.Config) {
					for i, nd := range cfg.Nodes {
						nodes[i] = &forbidding{Node: nd, text: text}
						cfg.Nodes[i] = nodes[i]
					}
				})
				_, err := c.RedLock("job").Acquire(t.Context())
				require.ErrorIs(t, err, node.ErrAuth)
				time.Sleep(10 * time.Second)
				for _, nd := range nodes {
					require.Equal(t, undone, nd.undos.Load() > 1, "%d undos", nd.undos.Load())
				}
			})
		})
	}
}
