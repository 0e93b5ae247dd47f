package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

var fixed = quorumlock.LockOptions{Fixed: true}

// A message is no proof: a lease without a tombstone on the nodes goes on, and a Fixed one is not extended.
func TestForcedMessageIsNoProof(t *testing.T) {
	for _, o := range []quorumlock.LockOptions{{}, fixed} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			client := f.Client()
			fleet.Subscribe(t, f, client)
			lease := fleet.MustAcquire(t, client.RedLock("job").With(o))
			fleet.Settle()
			time.Sleep(time.Second)
			before := lease.Remaining()
			for i := range f.Nodes {
				for range 100 {
					f.Do(i, wire.Absent, wire.Op{Kind: wire.ForceRelease, Names: []string{"other"}, Owner: lease.Owner(), TTL: time.Second})
				}
			}
			fleet.Settle()
			require.NoError(t, lease.Err())
			if o.Fixed {
				require.Equal(t, before, lease.Remaining())
			}
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// A forced release reaches the nodes one after the other, and each message comes at once. A minority changes nothing, and
// the majority ends the lease.
func TestForcedReleaseOfNodesInTurn(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		fleet.Subscribe(t, f, client)
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		fleet.Settle()
		for i := range 3 {
			require.NoError(t, lease.Err(), i)
			f.Do(i, wire.Released, wire.Op{Kind: wire.ForceRelease, Names: []string{"job"}, TTL: time.Minute})
			fleet.Settle()
			if i == 0 {
				have, _ := lease.Backing()
				require.Equal(t, 5, have, "one message alone causes no renewal")
			}
		}
		require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, lease.Err()).Cause)
	})
}

// A lease is handed over between the messages of two nodes. They tell of one owner, so both count.
func TestForcedReleaseAcrossAHandover(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		fleet.Subscribe(t, f, client)
		job := client.RedLock("job")
		line := fleet.LineUp(t, job, job)
		force := func(i int) {
			t.Helper()
			f.Do(i, wire.Released, wire.Op{Kind: wire.ForceRelease, Names: []string{"job"}, TTL: time.Minute})
			fleet.Settle()
		}
		force(0)
		first := line[0].Has()
		require.NoError(t, first.Release(t.Context()))
		next := line[1].Has()
		require.Equal(t, first.Owner(), next.Owner(), "handed over")
		force(1)
		require.NoError(t, next.Err(), "a minority")
		force(2)
		require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, next.Err()).Cause, "a majority has released it by force")
	})
}

// A forced release ends before it has removed anything. It must not return the present holder as one that it removed.
func TestForceReleaseThatRemovedNothingNamesNoHolder(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		operator := f.Client()
		f.Pause(2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		status, err := operator.RedLock("job").ForceRelease(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, lease.Err())
		if status != nil {
			require.Empty(t, status.Holder())
		}
		f.Resume(2)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// One process acquires, and another one releases: the next waiter gets the lock at once. Later holders are safe from a
// second call.
func TestReleaseOwnerInAnotherProcess(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		handler, worker := f.Client(), f.Client()
		lease := fleet.MustAcquire(t, handler.RedLock("job"))
		require.NoError(t, detach(lease))
		wait := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		require.True(t, wait.Waits())

		f.Stop(0)
		status, err := worker.RedLock("job").ReleaseOwner(t.Context(), lease.Owner())
		require.NoError(t, err)
		require.Equal(t, lease.Owner(), status.Holder())
		<-wait.Done
		require.NoError(t, wait.Err)
		f.Start(0)
		for _, client := range []*quorumlock.Client{handler, worker} {
			status, err = client.RedLock("job").ReleaseOwner(t.Context(), lease.Owner())
			require.NoError(t, err)
			require.Empty(t, status.Holder(), "the next holder keeps the lock")
		}
		time.Sleep(time.Minute)
		require.NoError(t, wait.Lease.Err())
		require.NoError(t, wait.Lease.Release(t.Context()))
	})
}

func TestReleaseOwnerRejects(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock := client.RedLock("job")
		for _, owner := range []string{"", node.Readers} {
			_, err := lock.ReleaseOwner(t.Context(), owner)
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
		}
		_, err := client.Semaphore("job", 1).ReleaseOwner(t.Context(), "")
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = lock.ReleaseOwner(nil, "x") //nolint:staticcheck // the test needs a nil context
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		f.Stop(0, 1)
		_, err = lock.ReleaseOwner(t.Context(), "x")
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	})
}

// One of several readers is taken, and the others stay. Its renewals do not bring it back, and the writer that waits comes
// after the last reader.
func TestReleaseOwnerOfAReader(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lock := f.Client().RWLock("prices")
		stays, goes := fleet.MustAcquire(t, lock.Read()), fleet.MustAcquire(t, f.Client().RWLock("prices").Read())
		writer := fleet.StartAcquire(t.Context(), t, f.Client().RWLock("prices").Write())
		require.True(t, writer.Waits())
		f.Nodes[0].Flush() // it forgot the reader, and must refuse it too

		status, err := lock.Read().ReleaseOwner(t.Context(), goes.Owner())
		require.NoError(t, err)
		require.Equal(t, []string{goes.Owner()}, status.Owners())
		require.Equal(t, goes.Owner(), status.Holder())
		time.Sleep(oneRenewal)
		require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, goes.Err()).Cause)
		time.Sleep(time.Minute)
		require.NoError(t, stays.Err())
		status, err = lock.Read().Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{stays.Owner()}, status.Owners())
		require.True(t, writer.Waits())

		_, err = lock.Write().ReleaseOwner(t.Context(), stays.Owner())
		require.NoError(t, err)
		require.NoError(t, writer.Has().Release(t.Context()))
		f.RequireNoKeys()
	})
}

// The permits of one owner go to the next waiter, and the others stay.
func TestReleaseOwnerOfPermits(t *testing.T) {
	for _, prefix := range []string{"", "billing:"} {
		fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
			change := func(cfg *quorumlock.Config) { cfg.Prefix = prefix }
			pool := f.Client(change).Semaphore("pool", 3)
			stays, err := pool.Acquire(t.Context(), 1)
			require.NoError(t, err)
			goes, err := pool.Acquire(t.Context(), 2)
			require.NoError(t, err)
			fleet.Settle()
			require.NoError(t, goes.Extend(t.Context()), "so that all nodes have it, also one that had not been asked")
			rival := f.Client(change).Semaphore("pool", 3)
			next := fleet.Start(t.Context(), t, func(ctx context.Context) (*quorumlock.Lease, error) { return rival.Acquire(ctx, 2) })
			fleet.Settle()
			f.Nodes[0].Flush()
			f.Stop(1)

			operator := f.Client(change).Semaphore("pool", 3)
			status, err := operator.ReleaseOwner(t.Context(), goes.Owner())
			require.NoError(t, err)
			require.Equal(t, map[string][]int{goes.Owner(): goes.Slots()}, status.Holders())
			fleet.Settle()
			took := f.Elapsed(func() { <-next.Done })
			require.NoError(t, next.Err)
			require.Less(t, took, 10*time.Millisecond, "the next waiter is woken")
			time.Sleep(oneRenewal)
			require.Equal(t, quorumlock.LossForced, fleet.LossOf(t, goes.Err()).Cause)
			f.Start(1)
			time.Sleep(time.Minute)
			require.NoError(t, stays.Err())
			require.NoError(t, next.Lease.Err())

			status, err = operator.ReleaseOwner(t.Context(), goes.Owner())
			require.NoError(t, err)
			require.Empty(t, status.Holders(), "it has none any more")
			f.Stop(0, 1, 2)
			_, err = operator.ReleaseOwner(t.Context(), stays.Owner())
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		})
	}
}
