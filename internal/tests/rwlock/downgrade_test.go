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
		require.NoError(t, lease.Downgrade(t.Context()))
		require.Equal(t, asked, fleet.TotalAsked(spies), "a downgrade does not acquire again")
		require.Equal(t, token, lease.Token())
		reader := fleet.MustAcquire(t, other.Read())
		require.Equal(t, token, reader.Token())
		_ = fleet.MustBeRefused(t, other.Write())
		_ = fleet.MustBeRefused(t, rw.Write())
		_, err := rw.Write().Acquire(lease.Context())
		require.ErrorIs(t, err, quorumlock.ErrOverlap)

		require.NoError(t, lease.Downgrade(t.Context()), "a second downgrade changes nothing")
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err(), "the downgraded lease is renewed")
		require.NoError(t, reader.Err())
		free(t, lease)
		require.ErrorIs(t, lease.Downgrade(t.Context()), quorumlock.ErrReleased)
		_ = fleet.MustBeRefused(t, rw.Write())
		free(t, reader)
		fleet.Settle()
		next := fleet.MustAcquire(t, rw.Write())
		require.Greater(t, next.Token(), token)
		free(t, next)
		f.RequireNoKeys()
	})
}

func TestDowngradeLetsWaitingReadersIn(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		rw, other := f.Client().RWLock("job"), f.Client().RWLock("job")
		before := fleet.MustAcquire(t, rw.Write())
		writing := fleet.StartAcquire(t.Context(), t, rw.Write()) // This writer has had entries in the queues.
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
		time.Sleep(time.Millisecond) // The tickets of the late reader and of the writer must differ.
		require.NoError(t, lease.Downgrade(t.Context()))
		time.Sleep(5 * time.Millisecond)
		for _, r := range readers {
			free(t, r.Has())
		}
		// The waiting writer comes before later readers.
		require.True(t, writer.Waits())
		time.Sleep(100 * time.Millisecond)
		require.True(t, late.Waits() || late.Lease != nil)
		newest := fleet.StartAcquire(t.Context(), t, other.Read())
		require.True(t, newest.Waits(), "the waiting writer is in the queues of the nodes")
		free(t, lease)
		for _, a := range []*fleet.Acquisition{late, writer, newest} {
			select {
			case <-a.Done:
			case <-time.After(time.Second):
				t.Fatal("a waiter was not served within a second")
			}
			free(t, a.Has())
		}
		f.RequireNoKeys()
	})
}

// A node that missed a downgrade still denies readers. It learns of the downgrade by a renewal, or is freed by the
// release.
func TestDowngradeMissedByOneNode(t *testing.T) {
	for _, released := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			c, wires := f.SpiedClient()
			rw, other := c.RWLock("job"), f.Client().RWLock("job")
			lease := fleet.MustAcquire(t, rw.Write())
			fleet.Settle()
			wires[2].Severed.Store(true)
			require.NoError(t, lease.Downgrade(t.Context()))
			reader := fleet.MustAcquire(t, other.Read())
			fleet.Settle()
			have, _ := reader.Backing()
			require.Equal(t, 2, have, "the third node is still held by a writer")
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

// Too few nodes confirm a downgrade. Downgrade returns an error, but the lease stays valid, and its renewals complete the
// downgrade.
func TestDowngradeWithoutAQuorum(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, wires := f.SpiedClient()
		rw, other := c.RWLock("job"), f.Client().RWLock("job")
		lease := fleet.MustAcquire(t, rw.Write())
		fleet.Settle()
		wires[1].Severed.Store(true)
		wires[2].Severed.Store(true)
		var err *quorumlock.NoQuorumError
		require.ErrorAs(t, lease.Downgrade(t.Context()), &err)
		require.NoError(t, lease.Err())
		_ = fleet.MustBeRefused(t, other.Read())
		wires[1].Severed.Store(false)
		wires[2].Severed.Store(false)
		time.Sleep(quorumlock.DefaultTTL / 2)
		require.NoError(t, lease.Err(), "the lease is renewed as a reader")
		free(t, fleet.MustAcquire(t, other.Read()), lease)
		f.RequireNoKeys()
	})
}

// One node missed the downgrade, and another one loses its memory. Renewals heal the lock there as a reader's. No writer
// gets the lock meanwhile.
func TestDowngradeAndMemoryLoss(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		c, wires := f.SpiedClient()
		rw, other := c.RWLock("job"), f.Client().RWLock("job")
		lease := fleet.MustAcquire(t, rw.Write())
		fleet.Settle()
		wires[0].Severed.Store(true)
		require.NoError(t, lease.Downgrade(t.Context()))
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

func TestDowngradeOfInvalidLeases(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		rw := c.RWLock("job")
		permit, err := c.Semaphore("pool", 1).TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		for _, lease := range []*quorumlock.Lease{permit, fleet.MustAcquire(t, c.MultiLock("a", "b"))} {
			require.ErrorIs(t, lease.Downgrade(t.Context()), quorumlock.ErrInvalid)
		}
		lease := fleet.MustAcquire(t, c.RedLock("job"))
		require.ErrorIs(t, lease.Downgrade(nil), quorumlock.ErrInvalid) //nolint:staticcheck // the test needs a nil context
		nested, err := rw.Write().Acquire(lease.Context())
		require.NoError(t, err)
		require.ErrorIs(t, lease.Downgrade(t.Context()), quorumlock.ErrShared)
		require.ErrorIs(t, nested.Downgrade(t.Context()), quorumlock.ErrShared)
		_ = fleet.MustBeRefused(t, f.Client().RWLock("job").Read())
		free(t, nested)
		require.NoError(t, lease.Downgrade(t.Context()), "a plain lock can be downgraded like a writer")
		free(t, fleet.MustAcquire(t, f.Client().RWLock("job").Read()))
		nested, err = rw.Read().Acquire(lease.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Downgrade(t.Context()), "it may be repeated, also while readers are nested in it")
		free(t, nested)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, lease.Downgrade(ctx), context.Canceled)
		free(t, lease)
		reader := fleet.MustAcquire(t, rw.Read())
		f.Pause(0, 1)
		require.NoError(t, reader.Downgrade(t.Context()), "a reader's lease stays as it is, without a question to the nodes")
		f.Resume(0, 1)
		free(t, reader)
	})
}

// A downgraded lease is not handed over to a waiting writer of the same client.
func TestDowngradedLeaseIsNotHandedOver(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		rw, other := f.Client().RWLock("job"), f.Client().RWLock("job")
		before := fleet.MustAcquire(t, rw.Write())
		first, second := fleet.StartAcquire(t.Context(), t, rw.Write()), fleet.StartAcquire(t.Context(), t, rw.Write())
		free(t, before)
		lease := first.Has()
		require.NoError(t, lease.Downgrade(t.Context()))
		reader := fleet.MustAcquire(t, other.Read().With(quorumlock.LockOptions{Spin: true}))
		free(t, lease)
		require.True(t, second.Waits(), "another client still reads")
		free(t, reader)
		time.Sleep(5 * time.Millisecond)
		free(t, second.Has())
		f.RequireNoKeys()
	})
}
