package quorumlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Node 1 forgets a reader: it gives nothing to a writer, which would have it and node 3.
func TestAForgetfulNodeGivesNoReadersLockAway(t *testing.T) {
	inVirtualTimeByEachLoss(t, 3, func(t *testing.T, f *fleet, lose func(int)) {
		c, wires := f.wired()
		wires[2].severed.Store(true)
		reader := held(t, c.RWLock("job").Read()) // of nodes 1 and 2
		settled()
		lose(0)
		other := f.client().RWLock("job")
		for range 100 {
			_ = refuses(t, other.Write())
			time.Sleep(200 * time.Millisecond)
		}
		require.NoError(t, reader.Err(), "it keeps what it has, and takes back what was forgotten")
		have, _ := reader.Backing()
		require.Equal(t, 2, have)
		free(t, reader)
		settled()
		free(t, held(t, other.Write()))
	})
}

// A reader puts itself back on a node that recovers and that a writer was granted before it
// forgot. That counts only from after the recovery on: the writer may have it all the while.
func TestAReadersHealCountsOnlyAsAReassertion(t *testing.T) {
	inVirtualTimeByEachLoss(t, 3, func(t *testing.T, f *fleet, lose func(int)) {
		reading, readWires := f.wired()
		writing, writeWires := f.wired()
		readWires[2].severed.Store(true)
		reader := held(t, reading.RWLock("job").Read()) // of nodes 1 and 2
		settled()

		// The writer is granted node 3, and waits for the others in vain.
		writeWires[0].severed.Store(true)
		writeWires[1].slow.Store(int64(300 * time.Millisecond))
		done := make(chan error, 1)
		go func() {
			_, err := writing.RWLock("job").Write().TryAcquire(t.Context())
			done <- err
		}()
		settled()
		require.Equal(t, []string{"job"}, f.nodes[2].Keys())
		lose(2)
		readWires[2].severed.Store(false)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, reader.Extend(t.Context()))
		settled()
		require.Equal(t, []string{"job"}, f.nodes[2].Keys(), "it is back on node 3")
		have, _ := reader.Backing()
		require.Equal(t, 2, have, "and that does not count")
		require.Error(t, <-done)

		time.Sleep(2 * recovery)
		require.NoError(t, reader.Err())
		have, _ = reader.Backing()
		require.Equal(t, 3, have)
		free(t, reader)
		f.noKeys()
	})
}

// Nodes restart one after the other, each when the one before has recovered. Readers and nobody
// else have the lock all the while.
func TestReadersSurviveRestartsInTurn(t *testing.T) {
	inVirtualTimeByEachLoss(t, 3, func(t *testing.T, f *fleet, lose func(int)) {
		rw, other := f.client().RWLock("job"), f.client().RWLock("job")
		first, second := held(t, rw.Read()), held(t, other.Read())
		for i := range f.nodes {
			lose(i)
			for range int(2*recovery/time.Second) + 1 {
				time.Sleep(time.Second)
				_ = refuses(t, other.Write())
			}
		}
		require.NoError(t, first.Err())
		require.NoError(t, second.Err())
		newest, err := rw.Read().TryAcquire(t.Context())
		require.NoError(t, err)
		free(t, first, second, newest)
		f.noKeys()
		writer := held(t, rw.Write())
		require.Greater(t, writer.Token(), newest.Token())
		free(t, writer)
	})
}

// All nodes forget: who reads is not told apart from who does not any more, and keeps the lock
// until a writer could have it.
func TestAllNodesForgetTheReaders(t *testing.T) {
	inVirtualTimeByEachLoss(t, 3, func(t *testing.T, f *fleet, lose func(int)) {
		rw := f.client().RWLock("job").With(quorumlock.LockOptions{Fixed: true})
		reader := held(t, rw.Read())
		for i := range f.nodes {
			lose(i)
		}
		for reader.Err() == nil {
			_ = refuses(t, rw.Write())
			_ = refuses(t, rw.Read())
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(recovery)
		writer := held(t, rw.Write())
		require.Greater(t, writer.Token(), reader.Token())
		free(t, writer)
	})
}
