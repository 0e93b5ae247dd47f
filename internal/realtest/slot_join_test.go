package realtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Joint locks and locks of several names lie in the slot. They are acquired all or none, and kept while the slot gets
// another owner.
func TestRealClusterJoins(t *testing.T) {
	t.Parallel()
	s := startSlot(t)
	two := startCluster(t, 2)
	two.open()
	s.joins(t, nil, func() { s.Move(s.marker, s.OtherMaster(s.marker), nil) })
	s.open()
	s.forgetLists()
	s.joins(t, two.addresses(), func() {
		s.Failover(s.marker)
		s.AwaitHealthy()
		s.Move(s.marker, s.OtherMaster(s.marker), nil)
	})
}

// joins checks locks of several names, on the slot and on other nodes. changeOwner gives the slot another owner.
func (s *slot) joins(t *testing.T, others []string, changeOwner func()) {
	t.Helper()
	ctx, one, two := withDeadline(t), s.client(others...), s.client(others...)
	first := one.RedLock("a")
	all := quorumlock.Join(first, one.RWLock("b").Read(), one.Semaphore("c", 2).Joinable(2), one.MultiLock("x", "y"))
	rivals := []quorumlock.Joinable{
		two.RedLock("a"), two.RWLock("b").Write(), two.Semaphore("c", 2).Joinable(1), two.MultiLock("y", "z"), two.RedLock("x"),
	}
	lease, err := all.Acquire(ctx)
	require.NoError(t, err)
	// refusal is why a rival gets nothing.
	refusal := func(rival quorumlock.Joinable) error {
		t.Helper()
		second, err := quorumlock.Join(rival).TryAcquire(ctx)
		if err == nil {
			require.Error(t, lease.Err(), "two clients hold a lock")
			_ = second.Release(ctx)
		}
		require.NoError(t, lease.Err(), "the joint lease is kept")
		return err
	}
	held := func(where string) {
		t.Helper()
		for _, rival := range rivals {
			require.Error(t, refusal(rival)) // a new owner recovers first
			eventually(t, 2*slotLimits().Recovery(), func() bool { return errors.Is(refusal(rival), quorumlock.ErrHeld) }, "%s say that the lock is held", where)
		}
	}
	token, _ := first.Token(lease.Context())
	require.Positive(t, token)
	held("the nodes")
	for _, key := range s.Owner(s.marker).Keys() {
		require.Equal(t, s.Slot(s.marker), s.Slot(key), key)
	}

	changeOwner()
	held("the nodes, with a new owner,")
	require.NoError(t, lease.Release(ctx))
	s.noLocks()

	// A name that another client has keeps all of them free.
	rival := acquire(t, two.RedLock("y"))
	// A node that recovers may answer first, and then the error does not say that the lock is held.
	eventually(t, 2*slotLimits().Recovery(), func() bool {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := all.Acquire(short)
		require.NoError(t, rival.Err(), "the rival keeps its lease")
		require.Error(t, err, "two clients hold a lock")
		return errors.Is(err, quorumlock.ErrHeld)
	}, "the waiter for all of the locks learns that one is held")
	s.noLocks("{" + s.tag + "}:y")
	require.NoError(t, rival.Release(ctx))
}

// noLocks requires that the owner of the slot soon has no locks but these, which are held by others. The index of a semaphore
// outlives its permits.
func (s *slot) noLocks(but ...string) {
	s.t.Helper()
	left := func() []string {
		return slices.DeleteFunc(s.Owner(s.marker).Keys(), func(key string) bool {
			return key == s.marker || key == wire.FencesKey(s.tag) || strings.HasPrefix(key, wire.ListKey("")) ||
				strings.HasPrefix(key, "quorumlock:slots:") || slices.Contains(but, key)
		})
	}
	eventually(s.t, soon, func() bool { return len(left()) == 0 }, "the slot has no locks; these are left: %v", left)
}

// A cluster is one node, by whichever of its servers it is listed. It never has a majority of three.
func TestRealClusterHasOneVote(t *testing.T) {
	t.Parallel()
	s := startSlot(t)
	var addresses []string
	for _, server := range s.Servers()[:3] {
		addresses = append(addresses, "redis://locker:secret@"+server.Addr()+"?tag="+s.tag)
	}
	client := newClient(t, withMaxTTL(slotTTL), func(cfg *quorumlock.Config) { cfg.Addresses = addresses })
	refused := func(after string) {
		t.Helper()
		// Three nodes undo an attempt on one server, so the next attempt may find the name held by the last one.
		eventually(t, soon, func() bool {
			_, err := client.RedLock("job").TryAcquire(t.Context())
			require.Error(t, err, after)
			return errors.Is(err, node.ErrSameServer)
		}, "an attempt fails after %s, as the nodes are the same server", after)
	}
	refused("the start")
	s.Move(s.marker, s.OtherMaster(s.marker), nil)
	s.open()
	// Each node learns of the move by itself.
	for range 50 {
		_, err := client.RedLock("job").TryAcquire(t.Context())
		require.Error(t, err)
	}
	refused("the move")
}
