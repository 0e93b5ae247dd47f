package redisproc

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTryLife(t *testing.T) {
	ctx := t.Context()
	s := Start(t, WithArgs("--appendonly", "yes", "--appendfsync", "no"), WithPassword("pw"))
	command(t, s, "SET", "k", "v")
	require.NoError(t, s.TryStart(ctx), "the server runs already")
	require.ErrorIs(t, s.TryWipe(), errRunning)

	require.NoError(t, s.TryPause())
	require.NoError(t, s.TryStop(ctx), "a paused server can be stopped")
	require.NoError(t, s.TryStop(ctx))
	assert.Zero(t, s.PID())
	require.ErrorIs(t, s.TryPause(), errDown)
	require.NoError(t, s.TryResume())
	require.NoError(t, s.TryStart(ctx))
	assert.Equal(t, "v", command(t, s, "GET", "k"))

	s.Kill()
	require.NoError(t, s.TryWipe())
	require.NoError(t, s.TryStart(ctx))
	assert.Empty(t, s.Keys())

	require.NoError(t, s.TryClose())
	require.NoError(t, s.TryClose())
	require.ErrorIs(t, s.TryStart(ctx), errClosed)
	require.ErrorIs(t, s.TrySetMaxMemory(ctx, 1), errClosed)
}

func TestTryStartIsBounded(t *testing.T) {
	s := Start(t)
	s.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.TryStart(ctx), context.Canceled)
	assert.Zero(t, s.PID(), "nothing is left behind")
	require.NoError(t, s.TryStart(t.Context()))
}

func TestAwaitClockGivesUp(t *testing.T) {
	s := Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, AwaitClock(ctx, time.Hour, s.askTime))
}

func TestExchange(t *testing.T) {
	s := Start(t)
	text, err := Exchange(t.Context(), "tcp", s.Addr(), "ECHO", "v")
	require.NoError(t, err)
	assert.Equal(t, "v", text)
	_, err = Exchange(t.Context(), "tcp", s.Addr(), "ECHO")
	var refused ReplyError
	require.ErrorAs(t, err, &refused)

	s.Pause()
	// The kernel accepts the connection. On a busy machine that must not take up all of the time, as the error of a
	// late dial is another one.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Exchange(ctx, "tcp", s.Addr(), "PING")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
