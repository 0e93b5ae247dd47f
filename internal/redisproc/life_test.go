package redisproc

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
