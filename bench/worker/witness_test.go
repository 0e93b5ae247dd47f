package worker

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/peer"
)

func TestWitness(t *testing.T) {
	file := filepath.Join(t.TempDir(), "witness")
	require.NoError(t, CreateWitness(file, 2))
	open := func() *Witness {
		w, err := OpenWitness(file)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.Close()) })
		return w
	}
	// Two openings stand for two processes.
	here, there := open(), open()

	first := here.enter(1, 0, peer.Claim{Weight: 1, Limit: 1})
	assert.True(t, first.allowed)
	assert.False(t, first.switched, "there was no holder before")
	assert.Zero(t, first.sinceRelease)
	assert.True(t, here.enter(0, 5, peer.Claim{Weight: 1, Limit: 1}).allowed, "another lock")

	second := there.enter(1, 1, peer.Claim{Weight: 1, Limit: 1})
	assert.False(t, second.allowed, "the first caller still holds it")
	assert.True(t, second.switched)
	there.leave(1, 1)
	here.leave(1, 1)

	third := there.enter(1, 1, peer.Claim{Weight: 1, Limit: 1})
	assert.True(t, third.allowed)
	assert.False(t, third.switched, "the same caller held it last")
	assert.Positive(t, third.sinceRelease)
	assert.Equal(t, int64(3), third.number)
	assert.Equal(t, int64(3), here.grantsOf(1))
}

// TestWitnessOfWeights shows that a grant is allowed as long as the weights fit the limit, as with permits, or with
// readers and a writer.
func TestWitnessOfWeights(t *testing.T) {
	const writer = 100
	file := filepath.Join(t.TempDir(), "witness")
	require.NoError(t, CreateWitness(file, 2))
	w, err := OpenWitness(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()

	assert.True(t, w.enter(0, 0, peer.Claim{Weight: 1, Limit: 2}).allowed)
	assert.True(t, w.enter(0, 1, peer.Claim{Weight: 1, Limit: 2}).allowed)
	assert.False(t, w.enter(0, 2, peer.Claim{Weight: 1, Limit: 2}).allowed, "there are two permits")

	assert.True(t, w.enter(1, 0, peer.Claim{Weight: 1, Limit: writer - 1}).allowed)
	assert.True(t, w.enter(1, 1, peer.Claim{Weight: 1, Limit: writer - 1}).allowed, "another reader")
	assert.False(t, w.enter(1, 2, peer.Claim{Weight: writer, Limit: writer}).allowed, "a writer beside readers")
	assert.False(t, w.enter(1, 3, peer.Claim{Weight: 1, Limit: writer - 1}).allowed, "a reader beside a writer")
	w.leave(1, 1)
	w.leave(1, 1)
	w.leave(1, 1)
	w.leave(1, writer)
	assert.True(t, w.enter(1, 2, peer.Claim{Weight: writer, Limit: writer}).allowed, "all others have gone")
}

func TestOpenMissingWitness(t *testing.T) {
	_, err := OpenWitness(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}
