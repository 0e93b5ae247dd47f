package redisproc

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOnlyTheWallClockSteps: the server schedules its own work by its monotonic clock, such as the removal of expired
// keys.
func TestOnlyTheWallClockSteps(t *testing.T) {
	s := Start(t, WithFaketime())
	for _, offset := range []time.Duration{-time.Hour, -2 * time.Hour} {
		s.SetClock(offset)
		command(t, s, "SET", "k", "v", "PX", "1")
		assert.True(t, poll(commandTimeout, func() bool {
			return command(t, s, "DBSIZE") == "0"
		}), "its work stands still")
	}
}

func TestFakedServerSavesInTheBackground(t *testing.T) {
	s := Start(t, WithClock(time.Hour))
	command(t, s, "SET", "k", "v")
	command(t, s, "BGSAVE")
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(s.Dir(), "dump.rdb"))
		return err == nil
	}, commandTimeout, pollInterval)
}

func TestSetClockNeedsFaketime(t *testing.T) {
	s, err := TryLaunch(t.Context())
	require.NoError(t, err)
	defer s.Close()
	assert.Panics(t, func() { s.SetClock(0) })
}

func TestLaunchWithoutLibfaketime(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := TryLaunch(t.Context(), WithFaketime(), faketimeAt(filepath.Join(tmp, "*.so.1")))
	require.ErrorContains(t, err, "make setup")
	assertEmptyDir(t, tmp)
}

func TestLaunchWithUnfitLibfaketime(t *testing.T) {
	unfit := filepath.Join(t.TempDir(), "libfaketime.so.1")
	require.NoError(t, os.WriteFile(unfit, []byte("for another machine"), 0o600))
	_, err := TryLaunch(t.Context(), WithClock(time.Hour), faketimeAt(filepath.Join(filepath.Dir(unfit), "*.so.1")))
	require.ErrorContains(t, err, unfit)
}

func faketimeAt(patterns ...string) Option {
	return func(c *config) { c.faketime = patterns }
}
