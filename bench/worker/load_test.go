package worker

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
)

// freeLock is always granted. Acquire calls during.
type freeLock struct{ during func() }

func (l freeLock) Acquire(context.Context) error { l.during(); return nil }
func (l freeLock) Release(context.Context) error { return nil }

// TestMeasuredOperations: callers go on after the measured time until they are stopped. That must not change the times
// of operations, nor their count.
func TestMeasuredOperations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "witness")
	require.NoError(t, CreateWitness(file, 1))
	witness, err := OpenWitness(file)
	require.NoError(t, err)
	l := newLoad(&worker{Job: Job{Cell: cell.Cell{Duration: time.Second}}, witness: witness})
	during := func() {}
	c := &caller{load: l, lock: freeLock{func() { during() }}}
	operate := func() {
		_, err := c.operate(t.Context(), t.Context())
		require.NoError(t, err)
	}
	operate()
	l.measured.Store(true)
	operate()
	operate()
	during = func() { l.measured.Store(false) }
	operate()
	operate()

	encoded, err := l.acquire.Encode()
	require.NoError(t, err)
	times, err := cell.Summarise([][]byte{encoded})
	require.NoError(t, err)
	assert.EqualValues(t, 3, times.Count, "those that began in the measured time")
	assert.EqualValues(t, 2, l.ops.Load(), "those that ended in it, too")
	assert.EqualValues(t, 5, l.all.Load())
}

func TestTransfersAreCounted(t *testing.T) {
	before := transfers() // it reads a file itself
	assert.Equal(t, runtime.GOOS == "linux", transfers() > before)
}
