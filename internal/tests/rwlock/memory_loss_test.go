package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A reader has nodes 1 and 2, and node 1 loses its memory. Node 1 must not grant the lock to a writer, which would win
// nodes 1 and 3.
func TestRecoveringNodeGrantsNoWriter(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		c, wires := f.WiredClient()
		wires[2].Severed.Store(true)
		reader := fleet.MustAcquire(t, c.RWLock("job").Read()) // on nodes 1 and 2
		fleet.Settle()
		lose(0)
		other := f.Client().RWLock("job")
		for range 100 {
			_ = fleet.MustBeRefused(t, other.Write())
			time.Sleep(200 * time.Millisecond)
		}
		require.NoError(t, reader.Err(), "the renewals re-assert the reader on node 1")
		have, _ := reader.Backing()
		require.Equal(t, 2, have)
		free(t, reader)
		fleet.Settle()
		free(t, fleet.MustAcquire(t, other.Write()))
	})
}

// Node 3 granted the lock to a writer, and then lost its memory. A renewal puts a reader on node 3. Until the recovery
// ends, the writer may still count node 3, so the reader must not count it.
func TestReaderHealCountsOnlyAsReassertion(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		reading, readWires := f.WiredClient()
		writing, writeWires := f.WiredClient()
		readWires[2].Severed.Store(true)
		reader := fleet.MustAcquire(t, reading.RWLock("job").Read()) // on nodes 1 and 2
		fleet.Settle()

		// Node 3 grants the writer. The other nodes do not answer it in time.
		writeWires[0].Severed.Store(true)
		writeWires[1].Slow.Store(int64(300 * time.Millisecond))
		done := make(chan error, 1)
		go func() {
			_, err := writing.RWLock("job").Write().TryAcquire(t.Context())
			done <- err
		}()
		fleet.Settle()
		require.Equal(t, []string{"job"}, f.Nodes[2].Keys())
		lose(2)
		readWires[2].Severed.Store(false)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, reader.Extend(t.Context()))
		fleet.Settle()
		require.Equal(t, []string{"job"}, f.Nodes[2].Keys(), "the renewal has put the reader on node 3")
		have, _ := reader.Backing()
		require.Equal(t, 2, have, "the heal on node 3 must not count")
		require.Error(t, <-done)

		time.Sleep(2 * fleet.RecoveryTime)
		require.NoError(t, reader.Err())
		have, _ = reader.Backing()
		require.Equal(t, 3, have)
		free(t, reader)
		f.RequireNoKeys()
	})
}

// The nodes lose their memory one after the other, with a full recovery between. Readers keep the lock, and no writer
// gets it.
func TestReadersSurviveRestartsInTurn(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		rw, other := f.Client().RWLock("job"), f.Client().RWLock("job")
		first, second := fleet.MustAcquire(t, rw.Read()), fleet.MustAcquire(t, other.Read())
		for i := range f.Nodes {
			lose(i)
			for range int(2*fleet.RecoveryTime/time.Second) + 1 {
				time.Sleep(time.Second)
				_ = fleet.MustBeRefused(t, other.Write())
			}
		}
		require.NoError(t, first.Err())
		require.NoError(t, second.Err())
		newest, err := rw.Read().TryAcquire(t.Context())
		require.NoError(t, err)
		free(t, first, second, newest)
		f.RequireNoKeys()
		writer := fleet.MustAcquire(t, rw.Write())
		require.Greater(t, writer.Token(), newest.Token())
		free(t, writer)
	})
}

// All nodes lose their memory. No new reader or writer gets the lock until the lease of the old reader has ended.
func TestAllNodesForgetTheReaders(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		rw := f.Client().RWLock("job").With(quorumlock.LockOptions{Fixed: true})
		reader := fleet.MustAcquire(t, rw.Read())
		for i := range f.Nodes {
			lose(i)
		}
		for reader.Err() == nil {
			_ = fleet.MustBeRefused(t, rw.Write())
			_ = fleet.MustBeRefused(t, rw.Read())
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(fleet.RecoveryTime)
		writer := fleet.MustAcquire(t, rw.Write())
		require.Greater(t, writer.Token(), reader.Token())
		free(t, writer)
	})
}
