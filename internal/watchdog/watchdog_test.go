package watchdog_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/watchdog"
)

// hang is set in the child of TestHangingTestIsNamed.
const hang = "QUORUMLOCK_TEST_HANG"

func TestHangsInChild(t *testing.T) {
	if os.Getenv(hang) == "" {
		return // runs only in the child
	}
	watchdog.Watch(t, 10*time.Millisecond)
	select {} // until the watchdog ends the process
}

func TestHangingTestIsNamed(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestHangsInChild$")
	cmd.Env = append(os.Environ(), hang+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 2, exit.ExitCode(), "%s", out)
	require.Contains(t, string(out), "watchdog_test.go", "where it hangs")
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Contains(t, lines[len(lines)-1], "TestHangsInChild has run for more than 10ms")
}

func TestEndedTestIsNotWatched(t *testing.T) {
	most := 50 * time.Millisecond
	t.Run("ends", func(t *testing.T) { watchdog.Watch(t, most) })
	<-time.After(2 * most) // a live watchdog would have ended this process
}
