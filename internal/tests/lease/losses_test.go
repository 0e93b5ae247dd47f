package lease_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// oneRenewal is the time within which a lease of the default TTL renews itself.
const oneRenewal = quorumlock.DefaultTTL/3 + 100*time.Millisecond

// An unreachable node decides the renewal before the last node reports its tombstone. The late tombstone
// still ends the lease.
func TestLateTombstoneStillEndsLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		former := fleet.MustAcquire(t, f.Client().RedLock("job"))
		_, err := f.Client().RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		f.Stop(0)
		f.Pause(2)
		extended := make(chan error, 1)
		go func() { extended <- former.Extend(t.Context()) }()
		fleet.Settle()
		require.NoError(t, former.Err())
		f.Resume(2)
		fleet.Settle()
		require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, former.Err()).Cause)
		require.Error(t, <-extended)
	})
}

// Several owners deny together, but none of them has a majority. So the lease is not taken.
func TestSplitDenialsDoNotEndLease(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		f.Free("job", lease.Owner(), 0, 1, 2, 3)
		f.Take("job", "x:1", 0, 1)
		f.Take("job", "y:1", 2, 3)
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum)
		require.NoError(t, lease.Err())
		f.Free("job", "x:1", 0, 1)
		require.NoError(t, lease.Extend(t.Context()))
	})
}

// A late renewal can heal the lock of a former holder on nodes that lost the current one. Its smaller token
// shows that it holds no lease, so the current lease does not end.
func TestHealedFormerHolderDoesNotEndLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		f.Free("job", lease.Owner(), 0, 1)
		for i := range 2 {
			f.Do(i, wire.Healed, wire.Op{Kind: wire.Renew, Names: []string{"job"}, Owner: "x:1", TTL: time.Second, Token: lease.Token() - 1})
		}
		fleet.AcquireAndRelease(t, f.Client().RedLock("eucw")) // shares the place of its fence with "job"
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum)
		require.NoError(t, lease.Err())
		time.Sleep(2 * time.Second)
		require.NoError(t, lease.Extend(t.Context()))
	})
}

// A denial reports all readers as one owner. So two denials do not prove that one reader has a majority.
func TestTransientReadersDoNotEndLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RWLock("job").Write())
		f.Free("job", lease.Owner(), 0, 1)
		for i, owner := range []string{"x:1", "y:1"} {
			f.Do(i, wire.Granted, wire.Op{Kind: wire.Acquire, Reads: true, Names: []string{"job"}, Owner: owner, TTL: time.Second})
		}
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum)
		require.NoError(t, lease.Err())
		time.Sleep(2 * time.Second)
		require.NoError(t, lease.Extend(t.Context()))
	})
}

// The loss that a release finds is reported to the hook LossFound, after the one end of the lease.
func TestLossFoundByAReleaseIsReported(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		var told []quorumlock.LossFoundEvent
		var ended []quorumlock.EndedEvent
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.LossFound = func(e quorumlock.LossFoundEvent) { told = append(told, e) }
			cfg.Hooks.Ended = func(e quorumlock.EndedEvent) { ended = append(ended, e) }
		})
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		f.Free("job", lease.Owner(), 0, 1, 2)
		err := lease.Release(t.Context())
		lost := fleet.LossOf(t, err)
		fleet.Settle()
		require.Len(t, ended, 1)
		require.Equal(t, []quorumlock.LossFoundEvent{{Names: lease.Names(), Owner: lease.Owner(), Token: lease.Token(), Err: lost}}, told)
	})
}

// A MultiLock needs all names on all nodes. So one name missing on one node is a loss.
func TestReleaseReportsLossOfOneName(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().MultiLock("a", "b"))
		f.Free("b", lease.Owner(), 1)
		require.Equal(t, quorumlock.LossGone, fleet.LossOf(t, lease.Release(t.Context())).Cause)
		f.RequireNoKeys()
	})
}

// Another program writes a key of another type over a lock. The release finds that on a majority, and reports it.
func TestReleaseReportsOverwrittenLock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		permits, err := client.Semaphore("pool", 3).TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		for name, lease := range map[string]*quorumlock.Lease{
			"job":  fleet.MustAcquire(t, client.RedLock("job")),
			"b":    fleet.MustAcquire(t, client.MultiLock("a", "b")),
			"book": fleet.MustAcquire(t, client.RWLock("book").Read()),
			wire.SlotName(wire.PoolName("pool"), permits.Slots()[0]): permits,
		} {
			fleet.Settle()
			f.Nodes[0].Plant(name)
			f.Nodes[1].Plant(name)
			lost := fleet.LossOf(t, lease.Release(t.Context()))
			require.Equal(t, quorumlock.LossGone, lost.Cause)
			require.ErrorIs(t, lost, node.ErrWrongType)
			require.Len(t, lost.Nodes, 2)
		}
		err = client.RedLock("once").Do(t.Context(), func(context.Context) error {
			f.Nodes[1].Plant("once")
			f.Nodes[2].Plant("once")
			return nil
		})
		require.ErrorIs(t, err, node.ErrWrongType)
		f.RequireNoKeys()
	})
}

// A node that has noticed its memory loss grants the lock to no other client. So a release there reports no
// loss.
func TestReleaseIgnoresMemoryLossThatNodesNotice(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		for _, loss := range []func(*memory.Node){(*memory.Node).Flush, (*memory.Node).Crash} {
			lease := fleet.MustAcquire(t, client.RedLock("job"))
			for _, nd := range f.Nodes {
				loss(nd)
			}
			require.NoError(t, lease.Release(t.Context()))
			f.RequireNoKeys()
			time.Sleep(fleet.RecoveryTime)
			_ = client.RedLock("job").Do(t.Context(), func(context.Context) error { return nil }) // The nodes begin to recover.
			time.Sleep(fleet.RecoveryTime + time.Second)
		}
	})
}

// Two nodes lose their memory, and fail before they can report it. Their missing keys do not prove a loss.
func TestReleaseIgnoresMemoryLossThatNodesCannotReport(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, ways := f.SpiedClient()
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		for i := range 2 {
			f.Nodes[i].Flush()
			stop := func(ops []wire.Op) {
				if ops[0].Kind == wire.Inspect {
					f.Stop(i)
				}
			}
			ways[i].Set(func(s *fleet.Spy) { s.Before = stop })
		}
		require.NoError(t, lease.Release(t.Context()))
		f.Start(0, 1)
	})
}

// One node is down all the time and never had the lock. A deletion on one more node leaves no majority, which
// is a loss.
func TestReleaseCountsNodeThatIsDown(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Stop(2)
		client := f.Client()
		_ = client.RedLock("other").Do(t.Context(), func(context.Context) error { return nil }) // The client finds n3 unreachable.
		fleet.Settle()
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		f.Free("job", lease.Owner(), 0)
		require.Equal(t, quorumlock.LossGone, fleet.LossOf(t, lease.Release(t.Context())).Cause)
	})
}

// The keys expire while the release is in flight. They existed when Release was called, so this is no loss.
func TestExpiryDuringReleaseIsNoLoss(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job").With(quorumlock.LockOptions{Fixed: true}))
		time.Sleep(lease.Remaining() - time.Millisecond)
		f.Pause(0, 1, 2)
		time.AfterFunc(200*time.Millisecond, func() { f.Resume(0, 1, 2) })
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A release that ran twice finds no keys the second time. This proves no loss, as the first run may have
// deleted them.
func TestReleaseIgnoresRepeatedAnswers(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(func(cfg *quorumlock.Config) {
			for i := range cfg.Nodes {
				cfg.Nodes[i] = repeater{cfg.Nodes[i]}
			}
		})
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// repeater is a node that runs each release twice, and returns the second answer.
type repeater struct{ node.Node }

func (r repeater) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	r.Node.Do(ctx, ops, replies)
	if ops[0].Kind == wire.Release {
		r.Node.Do(ctx, ops, replies)
		for i := range replies {
			replies[i].Repeated = true
		}
	}
}

func TestDoReportsDeletedLock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		remove := func(context.Context) error { //nolint:contextcheck // deletes keys by hand
			for _, owner := range owners(t, client.RedLock("job")) {
				f.Free("job", owner, 0, 1) //nolint:contextcheck // deletes keys by hand
			}
			return nil
		}
		err := client.RedLock("job").Do(t.Context(), remove)
		require.Equal(t, quorumlock.LossGone, fleet.LossOf(t, err).Cause)
		err = quorumlock.Join(client.RedLock("job"), client.RedLock("other")).Do(t.Context(), remove)
		require.Equal(t, quorumlock.LossGone, fleet.LossOf(t, err).Cause)
		f.RequireNoKeys()
	})
}

// owners lists the holders of a lock on all nodes, after everything has settled.
func owners(t *testing.T, lock *quorumlock.Lock) []string {
	t.Helper()
	fleet.Settle()
	status, err := lock.Inspect(t.Context())
	require.NoError(t, err)
	return status.Owners()
}

// A handed-over lock is released on the nodes once, by its last holder. That holder learns of the loss.
func TestLastHolderAfterHandoverLearnsOfLoss(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		first := fleet.MustAcquire(t, client.RedLock("job"))
		second := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
		require.True(t, second.Waits())
		require.NoError(t, first.Release(t.Context()))
		lease := second.Has()
		f.Free("job", lease.Owner(), 0, 1, 2)
		require.Equal(t, quorumlock.LossGone, fleet.LossOf(t, lease.Release(t.Context())).Cause)
	})
}

func TestTombstonesAreOnAllNodesForMaxTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		long, err := c.RedLock("job").With(quorumlock.LockOptions{Fixed: true}).TryAcquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		f.Nodes[0].Flush()
		f.Nodes[1].Flush()
		short := c.RedLock("job").With(quorumlock.LockOptions{TTL: 2 * time.Second})
		_, err = short.ForceRelease(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, long.Extend(t.Context()), quorumlock.ErrLost)
		f.RequireNoKeys()
	})
}

// starved is a clock whose timers are late: the process did not run, and the caller runs first.
type starved struct {
	clock.Clock
	by atomic.Int64
}

func (s *starved) Now() time.Duration { return s.Clock.Now() + time.Duration(s.by.Load()) }

// A Release finds that the lease has reached its hold limit, before the scheduler does. Ended tells so, and nothing else
// is told of the same lease.
func TestReleaseAfterTheHoldLimitFindsNoLoss(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		local := &starved{Clock: f.Clock}
		var ended []error
		var found []quorumlock.LossFoundEvent
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Clock = local
			cfg.Hooks.Ended = func(e quorumlock.EndedEvent) { ended = append(ended, e.Err) }
			cfg.Hooks.LossFound = func(e quorumlock.LossFoundEvent) { found = append(found, e) }
		})
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{MaxHold: 2 * time.Second}))
		fleet.Settle()
		f.Free("job", lease.Owner(), 0, 1, 2)
		local.by.Store(int64(2 * time.Second))
		require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrHoldLimit)
		fleet.Settle()
		require.Len(t, ended, 1)
		require.ErrorIs(t, ended[0], quorumlock.ErrHoldLimit)
		require.Empty(t, found, "LossFound follows only an Ended that reports a release")
	})
}
