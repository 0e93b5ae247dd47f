package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// startResource starts a resource, and returns it with a worker's connection.
func startResource(t *testing.T) (*resource, *desk) {
	t.Helper()
	r, err := newResource()
	require.NoError(t, err)
	t.Cleanup(r.close)
	d, err := dial(t.Context(), r.addr())
	require.NoError(t, err)
	return r, d
}

func TestTheResourceRefusesStaleTokens(t *testing.T) {
	r, d := startResource(t)
	for _, b := range []badge{
		{write, "delta", 5},
		{read, "delta", 7}, // is not remembered
		{write, "delta", 6},
		{read, "delta", 5},  // refused
		{write, "delta", 5}, // refused
		{write, "gamma#0", 1},
		{write, "gamma#1", 9},
		{write, "gamma#0", 2},
	} {
		require.NoError(t, d.show(t.Context(), b))
	}
	require.Equal(t, map[string]int{"delta": 2}, r.refused)
	require.Equal(t, 5, r.seen().grants)
	require.ErrorContains(t, d.say(t.Context(), "dance", "delta", "1"), "does not understand")
}

func TestTheResourceSeesLatchesThatAreDoneTooEarly(t *testing.T) {
	r, d := startResource(t)
	for _, id := range []string{"a", "b", "a"} {
		require.NoError(t, d.counting(t.Context(), "latch", id))
	}
	require.NoError(t, d.done(t.Context(), "latch", 2))
	require.Empty(t, r.early)
	require.NoError(t, d.done(t.Context(), "latch", 3))
	require.Equal(t, []string{`"latch" was done when 2 of 3 had begun to count down`}, r.early)
}

func TestTheResourceIsIdleWhenAllHaveGone(t *testing.T) {
	r, d := startResource(t)
	require.NoError(t, d.show(t.Context(), badge{write, "delta", 1}))
	require.False(t, r.idle())
	require.NoError(t, d.conn.Close())
	require.Eventually(t, r.idle, waitsFor, waitsFor/1000)
}
