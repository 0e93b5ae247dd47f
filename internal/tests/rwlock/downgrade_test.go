package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func TestDowngrade(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		rw, other := c.RWLock("job"), f.Client().RWLock("job")
		lease := fleet.MustAcquire(t, rw.Write())
		token, asked := lease.Token(), fleet.TotalAsked(spies)
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		require.Equal(t, asked, fleet.TotalAsked(spies), "it does not ask for the lock again")
		require.Equal(t, token, lease.Token())
		reader := fleet.MustAcquire(t, other.Read())
		require.Equal(t, token, reader.Token())
		_ = fleet.MustBeRefused(t, other.Write())
		_ = fleet.MustBeRefused(t, rw.Write())
		_, err := rw.Write().Acquire(lease.Context())
		require.ErrorIs(t, err, quorumlock.ErrUpgrade)

		require.NoError(t, rw.Downgrade(t.Context(), lease), "a second time it changes nothing")
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err(), "it renews itself")
		require.NoError(t, reader.Err())
		free(t, lease)
		require.ErrorIs(t, rw.Downgrade(t.Context(), lease), quorumlock.ErrReleased)
		_ = fleet.MustBeRefused(t, rw.Write())
		free(t, reader)
		fleet.Settle()
		next := fleet.MustAcquire(t, rw.Write())
		require.Greater(t, next.Token(), token)
		free(t, next)
		f.RequireNoKeys()
	})
}

func TestDowngradeLetsInWhoWaitsToRead(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		rw, other := f.Client().RWLock("job"), f.Client().RWLock("job")
		before := fleet.MustAcquire(t, rw.Write())
		writing := fleet.StartAcquire(t.Context(), t, rw.Write()) // The writer then has entries in the queues.
		free(t, before)
		lease := writing.Has()
		var readers []*fleet.Acquisition
		for range 3 {
			readers = append(readers, fleet.StartAcquire(t.Context(), t, rw.Read()), fleet.StartAcquire(t.Context(), t, other.Read()))
			time.Sleep(time.Millisecond)
		}
		writer := fleet.StartAcquire(t.Context(), t, rw.Write())
		time.Sleep(time.Millisecond)
		late := fleet.StartAcquire(t.Context(), t, other.Read())
		time.Sleep(time.Millisecond) // The late reader must come after the writer, whose turn counts from the downgrade.
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		time.Sleep(5 * time.Millisecond)
		for _, r := range readers {
			free(t, r.Has())
		}
		// The writer of the same client precedes later readers.
		require.True(t, writer.Waits())
		time.Sleep(100 * time.Millisecond)
		require.True(t, late.Waits() || late.Lease != nil)
		newest := fleet.StartAcquire(t.Context(), t, other.Read())
		require.True(t, newest.Waits(), "the writer of this client waits on the nodes")
		free(t, lease)
		for _, a := range []*fleet.Acquisition{late, writer, newest} {
			select {
			case <-a.Done:
			case <-time.After(time.Second):
				t.Fatal("who waits gets it")
			}
			free(t, a.Has())
		}
		f.RequireNoKeys()
	})
}

// A node that misses a downgrade keeps writers and readers out. It catches up with a renewal, or
// with the release.
func TestDowngradeWithANodeMissing(t *testing.T) {
	for _, released := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			c, wires := f.WiredClient()
			rw, other := c.RWLock("job"), f.Client().RWLock("job")
			lease := fleet.MustAcquire(t, rw.Write())
			fleet.Settle()
			wires[2].Severed.Store(true)
			require.NoError(t, rw.Downgrade(t.Context(), lease))
			reader := fleet.MustAcquire(t, other.Read())
			fleet.Settle()
			have, _ := reader.Backing()
			require.Equal(t, 2, have, "the third node is still a writer's")
			_ = fleet.MustBeRefused(t, other.Write())
			wires[2].Severed.Store(false)
			time.Sleep(time.Second) // Wait until the client knows that the node is back.
			if released {
				free(t, lease)
			} else {
				time.Sleep(2 * quorumlock.DefaultTTL)
			}
			time.Sleep(quorumlock.DefaultTTL)
			have, _ = reader.Backing()
			require.Equal(t, 3, have)
			if !released {
				have, _ = lease.Backing()
				require.Equal(t, 3, have)
				free(t, lease)
			}
			free(t, reader)
			f.RequireNoKeys()
		})
	}
}

// Too few nodes learn of a downgrade. The lease becomes a reader's lease, and stays valid.
func TestDowngradeWithoutAQuorum(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, wires := f.WiredClient()
		rw, other := c.RWLock("job"), f.Client().RWLock("job")
		lease := fleet.MustAcquire(t, rw.Write())
		fleet.Settle()
		wires[1].Severed.Store(true)
		wires[2].Severed.Store(true)
		var err *quorumlock.NoQuorumError
		require.ErrorAs(t, rw.Downgrade(t.Context(), lease), &err)
		require.NoError(t, lease.Err())
		_ = fleet.MustBeRefused(t, other.Read())
		wires[1].Severed.Store(false)
		wires[2].Severed.Store(false)
		time.Sleep(quorumlock.DefaultTTL / 2)
		require.NoError(t, lease.Err(), "the renewals go on, as a reader's")
		free(t, fleet.MustAcquire(t, other.Read()), lease)
		f.RequireNoKeys()
	})
}

// A node that has lost its memory takes a former writer back as a reader. One of the other nodes
// may have missed the downgrade.
func TestDowngradeAmongLosses(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		c, wires := f.WiredClient()
		rw, other := c.RWLock("job"), f.Client().RWLock("job")
		lease := fleet.MustAcquire(t, rw.Write())
		fleet.Settle()
		wires[0].Severed.Store(true)
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		lose(1)
		wires[0].Severed.Store(false)
		for range 20 {
			time.Sleep(time.Second)
			require.NoError(t, lease.Err())
			_ = fleet.MustBeRefused(t, other.Write())
		}
		reader := fleet.MustAcquire(t, other.Read())
		require.GreaterOrEqual(t, reader.Token(), lease.Token())
		free(t, lease)
		_ = fleet.MustBeRefused(t, other.Write())
		free(t, reader)
		f.RequireNoKeys()
	})
}

func TestDowngradeOfWhatIsNoWriters(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		rw := c.RWLock("job")
		for _, lease := range []*quorumlock.Lease{nil, fleet.MustAcquire(t, c.RedLock("another")), fleet.MustAcquire(t, f.Client().RedLock("one more"))} {
			require.ErrorIs(t, rw.Downgrade(t.Context(), lease), quorumlock.ErrInvalid)
		}
		lease := fleet.MustAcquire(t, c.RedLock("job"))
		require.ErrorIs(t, rw.Downgrade(nil, lease), quorumlock.ErrInvalid) //nolint:staticcheck // that is the point
		nested, err := rw.Write().Acquire(lease.Context())
		require.NoError(t, err)
		require.ErrorIs(t, rw.Downgrade(t.Context(), lease), quorumlock.ErrShared)
		require.ErrorIs(t, rw.Downgrade(t.Context(), nested), quorumlock.ErrShared)
		_ = fleet.MustBeRefused(t, f.Client().RWLock("job").Read())
		free(t, nested)
		require.NoError(t, rw.Downgrade(t.Context(), lease), "a plain lock of the same name is the writer's")
		free(t, fleet.MustAcquire(t, f.Client().RWLock("job").Read()))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, rw.Downgrade(ctx, lease), context.Canceled)
		free(t, lease)
		reader := fleet.MustAcquire(t, rw.Read())
		require.NoError(t, rw.Downgrade(t.Context(), reader), "it is one already")
		free(t, reader)
	})
}

// The client does not hand a downgraded lease over to a writer of the same client.
func TestADowngradedLeaseIsNotHandedOver(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		rw, other := f.Client().RWLock("job"), f.Client().RWLock("job")
		before := fleet.MustAcquire(t, rw.Write())
		first, second := fleet.StartAcquire(t.Context(), t, rw.Write()), fleet.StartAcquire(t.Context(), t, rw.Write())
		free(t, before)
		lease := first.Has()
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		reader := fleet.MustAcquire(t, other.Read().With(quorumlock.LockOptions{Waiting: quorumlock.WaitSpin}))
		free(t, lease)
		require.True(t, second.Waits(), "somebody else reads")
		free(t, reader)
		time.Sleep(5 * time.Millisecond)
		free(t, second.Has())
		f.RequireNoKeys()
	})
}
