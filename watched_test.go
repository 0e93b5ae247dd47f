package quorumlock_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longest is for how long any one test may go on: many times longer than each does on a machine that
// has nothing else to do, and short enough that the whole package still has time left then.
func longest() time.Duration {
	return longer(5*time.Minute, time.Hour) + *soakSpan + *sharesSpan
}

// watched has a test that never ends say so. Else it would keep all others waiting until the time of
// the whole package is up; and its name would stand before the stacks of all goroutines, which are so
// long that it is what is cut off. So here it comes last.
func watched(t testing.TB, most time.Duration) {
	t.Helper()
	if _, benchmark := t.(*testing.B); benchmark {
		return // that goes on for as long as one likes
	}
	timer := time.AfterFunc(most, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		fmt.Fprintf(os.Stderr, "\n%s has gone on for more than %v: what it waits for is in the stacks above\n", t.Name(), most)
		os.Exit(2)
	})
	t.Cleanup(func() { timer.Stop() })
}

func init() {
	childRoles["hang"] = func(t *testing.T) {
		watched(t, 10*time.Millisecond)
		select {} // as long as the watch lets it
	}
}

func TestATestThatHangsIsNamed(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestChildProcess$")
	cmd.Env = append(os.Environ(), childRole+"=hang", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 2, exit.ExitCode(), "%s", out)
	require.Contains(t, string(out), "watched_test.go", "where it hangs")
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Contains(t, lines[len(lines)-1], "TestChildProcess has gone on for more than 10ms")
}

// in requires that something comes through a channel, which it returns: that it does not come is to be
// a failure of this test, and not the end of the time of all.
func in[T any](t testing.TB, channel <-chan T, what string) T {
	t.Helper()
	select {
	case it := <-channel:
		return it
	case <-time.After(atMost):
		require.Fail(t, "within "+atMost.String()+": "+what)
		panic("not reached")
	}
}
