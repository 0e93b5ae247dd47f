package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// Node 1 forgets a reader: it gives nothing to a writer, which would have it and node 3.
func TestAForgetfulNodeGivesNoReadersLockAway(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		c, wires := f.WiredClient()
		wires[2].Severed.Store(true)
		reader := fleet.MustAcquire(t, c.RWLock("job").Read()) // of nodes 1 and 2
		fleet.Settle()
		lose(0)
		other := f.Client().RWLock("job")
		for range 100 {
			_ = fleet.MustBeRefused(t, other.Write())
			time.Sleep(200 * time.Millisecond)
		}
		require.NoError(t, reader.Err(), "it keeps what it has, and takes back what was forgotten")
		have, _ := reader.Backing()
		require.Equal(t, 2, have)
		free(t, reader)
		fleet.Settle()
		free(t, fleet.MustAcquire(t, other.Write()))
	})
}

// A reader puts itself back on a node that recovers and that a writer was granted before it
// forgot. That counts only from after the recovery on: the writer may have it all the while.
func TestAReadersHealCountsOnlyAsAReassertion(t *testing.T) {
	fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
		reading, readWires := f.WiredClient()
		writing, writeWires := f.WiredClient()
		readWires[2].Severed.Store(true)
		reader := fleet.MustAcquire(t, reading.RWLock("job").Read()) // of nodes 1 and 2
		fleet.Settle()

		// The writer is granted node 3, and waits for the others in vain.
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
		require.Equal(t, []string{"job"}, f.Nodes[2].Keys(), "it is back on node 3")
		have, _ := reader.Backing()
		require.Equal(t, 2, have, "and that does not count")
		require.Error(t, <-done)

		time.Sleep(2 * fleet.RecoveryTime)
		require.NoError(t, reader.Err())
		have, _ = reader.Backing()
		require.Equal(t, 3, have)
		free(t, reader)
		f.RequireNoKeys()
	})
}

// Nodes restart one after the other, each when the one before has recovered. Readers and nobody
// else have the lock all the while.
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

// All nodes forget: who reads is not told apart from who does not any more, and keeps the lock
// until a writer could have it.
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
