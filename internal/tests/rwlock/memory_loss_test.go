package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
)

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
