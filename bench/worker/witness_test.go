package worker

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWitness(t *testing.T) {
	file := filepath.Join(t.TempDir(), "witness")
	require.NoError(t, CreateWitness(file, 2))
	open := func() *Witness {
		w, err := OpenWitness(file)
		require.NoError(t, err)
		return w
	}
	// Two openings stand for two processes.
	here, there := open(), open()

	first := here.enter(1)
	assert.True(t, first.allowed)
	assert.Zero(t, first.sinceRelease)
	assert.True(t, here.enter(0).allowed, "another lock")

	second := there.enter(1)
	assert.False(t, second.allowed, "the first caller still holds it")
	there.leave(1)
	here.leave(1)

	third := there.enter(1)
	assert.True(t, third.allowed)
	assert.Positive(t, third.sinceRelease)
	assert.Equal(t, int64(3), third.number)
	assert.Equal(t, int64(3), here.grantsOf(1))
}

func TestOpenMissingWitness(t *testing.T) {
	_, err := OpenWitness(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}
