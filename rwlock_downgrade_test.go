package quorumlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

func TestDowngrade(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		c, spies := f.spied()
		rw, other := c.RWLock("job"), f.client().RWLock("job")
		lease := held(t, rw.Write())
		token, asked := lease.Token(), total(spies)
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		require.Equal(t, asked, total(spies), "it does not ask for the lock again")
		require.Equal(t, token, lease.Token())
		reader := held(t, other.Read())
		require.Equal(t, token, reader.Token())
		_ = refuses(t, other.Write())
		_ = refuses(t, rw.Write())
		_, err := rw.Write().Acquire(lease.Context())
		require.ErrorIs(t, err, quorumlock.ErrUpgrade)

		require.NoError(t, rw.Downgrade(t.Context(), lease), "a second time it changes nothing")
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err(), "it renews itself")
		require.NoError(t, reader.Err())
		free(t, lease)
		require.ErrorIs(t, rw.Downgrade(t.Context(), lease), quorumlock.ErrReleased)
		_ = refuses(t, rw.Write())
		free(t, reader)
		settled()
		next := held(t, rw.Write())
		require.Greater(t, next.Token(), token)
		free(t, next)
		f.noKeys()
	})
}

func TestDowngradeLetsInWhoWaitsToRead(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		rw, other := f.client().RWLock("job"), f.client().RWLock("job")
		before := held(t, rw.Write())
		writing := acquiring(t.Context(), t, rw.Write()) // it has entries in the queues then
		free(t, before)
		lease := writing.has()
		var readers []*acquisition
		for range 3 {
			readers = append(readers, acquiring(t.Context(), t, rw.Read()), acquiring(t.Context(), t, other.Read()))
			time.Sleep(time.Millisecond)
		}
		writer := acquiring(t.Context(), t, rw.Write())
		time.Sleep(time.Millisecond)
		late := acquiring(t.Context(), t, other.Read())
		time.Sleep(time.Millisecond) // or its turn is that of the writer, which counts from the downgrade
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		time.Sleep(5 * time.Millisecond)
		for _, r := range readers {
			free(t, r.has())
		}
		// The writer of the same client stands before those that come later.
		require.True(t, writer.waits())
		time.Sleep(100 * time.Millisecond)
		require.True(t, late.waits() || late.lease != nil)
		newest := acquiring(t.Context(), t, other.Read())
		require.True(t, newest.waits(), "the writer of this client waits on the nodes")
		free(t, lease)
		for _, a := range []*acquisition{late, writer, newest} {
			select {
			case <-a.done:
			case <-time.After(time.Second):
				t.Fatal("who waits gets it")
			}
			free(t, a.has())
		}
		f.noKeys()
	})
}

// A node that hears nothing of a downgrade keeps writers and readers off, and follows with a
// renewal, or with the release.
func TestDowngradeWithANodeMissing(t *testing.T) {
	for _, released := range []bool{false, true} {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			c, wires := f.wired()
			rw, other := c.RWLock("job"), f.client().RWLock("job")
			lease := held(t, rw.Write())
			settled()
			wires[2].severed.Store(true)
			require.NoError(t, rw.Downgrade(t.Context(), lease))
			reader := held(t, other.Read())
			settled()
			have, _ := reader.Backing()
			require.Equal(t, 2, have, "the third node is still a writer's")
			_ = refuses(t, other.Write())
			wires[2].severed.Store(false)
			time.Sleep(time.Second) // it is known to be back
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
			f.noKeys()
		})
	}
}

// The nodes that hear of a downgrade are too few: the lease is a reader's, and lives on.
func TestDowngradeWithoutAQuorum(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, wires := f.wired()
		rw, other := c.RWLock("job"), f.client().RWLock("job")
		lease := held(t, rw.Write())
		settled()
		wires[1].severed.Store(true)
		wires[2].severed.Store(true)
		var err *quorumlock.NoQuorumError
		require.ErrorAs(t, rw.Downgrade(t.Context(), lease), &err)
		require.NoError(t, lease.Err())
		_ = refuses(t, other.Read())
		wires[1].severed.Store(false)
		wires[2].severed.Store(false)
		time.Sleep(quorumlock.DefaultTTL / 2)
		require.NoError(t, lease.Err(), "the renewals go on, as a reader's")
		free(t, held(t, other.Read()), lease)
		f.noKeys()
	})
}

// A node that has lost its memory takes a writer that became a reader back as one; a node that
// missed the downgrade may be among them.
func TestDowngradeAmongLosses(t *testing.T) {
	inVirtualTimeByEachLoss(t, 3, func(t *testing.T, f *fleet, lose func(int)) {
		c, wires := f.wired()
		rw, other := c.RWLock("job"), f.client().RWLock("job")
		lease := held(t, rw.Write())
		settled()
		wires[0].severed.Store(true)
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		lose(1)
		wires[0].severed.Store(false)
		for range 20 {
			time.Sleep(time.Second)
			require.NoError(t, lease.Err())
			_ = refuses(t, other.Write())
		}
		reader := held(t, other.Read())
		require.GreaterOrEqual(t, reader.Token(), lease.Token())
		free(t, lease)
		_ = refuses(t, other.Write())
		free(t, reader)
		f.noKeys()
	})
}

func TestDowngradeOfWhatIsNoWriters(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c := f.client()
		rw := c.RWLock("job")
		for _, lease := range []*quorumlock.Lease{nil, held(t, c.RedLock("another")), held(t, f.client().RedLock("one more"))} {
			require.ErrorIs(t, rw.Downgrade(t.Context(), lease), quorumlock.ErrInvalid)
		}
		lease := held(t, c.RedLock("job"))
		require.ErrorIs(t, rw.Downgrade(nil, lease), quorumlock.ErrInvalid) //nolint:staticcheck // that is the point
		nested, err := rw.Write().Acquire(lease.Context())
		require.NoError(t, err)
		require.ErrorIs(t, rw.Downgrade(t.Context(), lease), quorumlock.ErrShared)
		require.ErrorIs(t, rw.Downgrade(t.Context(), nested), quorumlock.ErrShared)
		_ = refuses(t, f.client().RWLock("job").Read())
		free(t, nested)
		require.NoError(t, rw.Downgrade(t.Context(), lease), "a plain lock of the same name is the writer's")
		free(t, held(t, f.client().RWLock("job").Read()))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, rw.Downgrade(ctx, lease), context.Canceled)
		free(t, lease)
		reader := held(t, rw.Read())
		require.NoError(t, rw.Downgrade(t.Context(), reader), "it is one already")
		free(t, reader)
	})
}

// A hold that became a reader's is not handed over to a writer of the same client.
func TestADowngradedLeaseIsNotHandedOver(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		rw, other := f.client().RWLock("job"), f.client().RWLock("job")
		before := held(t, rw.Write())
		first, second := acquiring(t.Context(), t, rw.Write()), acquiring(t.Context(), t, rw.Write())
		free(t, before)
		lease := first.has()
		require.NoError(t, rw.Downgrade(t.Context(), lease))
		reader := held(t, other.Read().With(quorumlock.LockOptions{Waiting: quorumlock.WaitSpin}))
		free(t, lease)
		require.True(t, second.waits(), "somebody else reads")
		free(t, reader)
		time.Sleep(5 * time.Millisecond)
		free(t, second.has())
		f.noKeys()
	})
}
