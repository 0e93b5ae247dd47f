package node_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func newMemory(t *testing.T) *memory.Node {
	t.Helper()
	m := memory.New("m", clock.Process())
	t.Cleanup(func() { _ = m.Close() })
	return opened(t, m)
}

func TestMemoryStopped(t *testing.T) {
	m := newMemory(t)
	want(t, wire.Granted, m, acquire("o1", "a"))
	m.Stop()
	r := do(m, release("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrUnreachable)
	assert.True(t, r.Unsent)
	require.ErrorIs(t, m.Probe(context.Background()), node.ErrUnreachable)
	m.Start()
	require.NoError(t, m.Probe(context.Background()))
	assert.Equal(t, []string{"a"}, m.Keys(), "it keeps what it knew")
}

func TestMemoryPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.Pause()
		m.Pause()
		began := time.Now()
		r := do(m, acquire("o1", "a"))[0]
		require.ErrorIs(t, r.Err, node.ErrTimeout)
		assert.False(t, r.Unsent, "to the caller it may have happened")
		assert.Equal(t, wire.DefaultTimeout, time.Since(began))
		require.ErrorIs(t, m.Probe(context.Background()), node.ErrTimeout)

		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, m.Probe(ctx), node.ErrCanceled)
		m.Resume()
		m.Resume()
		assert.Empty(t, m.Keys(), "what timed out did not run")
		want(t, wire.Granted, m, acquire("o1", "a"))
	})
}

func TestMemoryResumedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.Pause()
		time.AfterFunc(wire.DefaultTimeout/2, m.Resume)
		want(t, wire.Granted, m, acquire("o1", "a"))
		assert.Equal(t, []string{"a"}, m.Keys())
	})
}

func TestMemoryClosedWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t)
		m.Pause()
		time.AfterFunc(wire.DefaultTimeout/2, func() { _ = m.Close() })
		fails(t, node.ErrClosed, m, acquire("o1", "a"))
	})
}
