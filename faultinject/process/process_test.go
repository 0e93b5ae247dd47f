package process_test

import (
	"context"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/process"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, n int) *faultinject.Group {
	t.Helper()
	group, err := process.Start(t.Context(), n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	return group
}

func TestGroupLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	group := start(t, 3)
	pids := processes(t, group)
	require.NoError(t, group.Close())
	require.NoError(t, group.Close())
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
	for _, p := range pids {
		require.ErrorIs(t, p.Signal(syscall.Signal(0)), os.ErrProcessDone)
	}
}

// processes returns the processes of the servers, which must be running.
func processes(t *testing.T, group *faultinject.Group) (all []*os.Process) {
	t.Helper()
	for _, s := range group.Servers() {
		id, err := s.Command(t.Context(), "EVAL", `return string.match(redis.call("INFO", "server"), "process_id:(%d+)")`, "0")
		require.NoError(t, err)
		pid, err := strconv.Atoi(id)
		require.NoError(t, err)
		p, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.NoError(t, p.Signal(syscall.Signal(0)), "the process runs")
		all = append(all, p)
	}
	return all
}

// TestStepClock: the contract allows servers whose clocks cannot step. These can, if libfaketime is installed.
func TestStepClock(t *testing.T) {
	s := start(t, 1).Servers()[0]
	require.NoError(t, s.StepClock(t.Context(), time.Hour), "make setup installs libfaketime")
}

func TestStartWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := process.Start(t.Context(), 2)
	require.ErrorContains(t, err, "faultinject: process n1: start: redis-server is not on PATH")
	require.ErrorContains(t, err, "process n2")
}

func TestStartThatIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := process.Start(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
}
