package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/internal/live"
)

// resize changes the size of the terminal, and signals its programs.
func (s *session) resize(columns, rows uint16) {
	s.t.Helper()
	conn, err := s.user.SyscallConn()
	require.NoError(s.t, err)
	require.NoError(s.t, conn.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}))
	require.NoError(s.t, err)
}

// watchOnTerminal begins a live view.
func watchOnTerminal(t *testing.T, servers fleet, args ...string) *session {
	t.Helper()
	cmd := selfCommand(t, append([]string{"top", "--nodes", servers.nodes()}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	s := onTerminal(t, cmd)
	s.sees(live.Enter)
	return s
}

func TestTopLive(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	s := watchOnTerminal(t, servers, "--interval", "100ms")
	s.sees("3 of 3 nodes answer (2 needed), 0 locks held")
	lease, err := servers.client(t).RedLock("k").Acquire(t.Context())
	require.NoError(t, err)
	s.sees("\r\nk     ")
	servers[0].Kill()
	s.sees("\x1b[31m" + servers[0].Addr())
	require.NoError(t, lease.Release(t.Context()))
	s.sees("0 locks held")
	s.types(ctrlC)
	s.sees(live.Leave)
	assert.Zero(t, s.exit())
}

// TestTopFollowsTheSize: the picture follows the size of the terminal at once, not in the next round.
func TestTopFollowsTheSize(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 1)
	s := watchOnTerminal(t, servers, "--interval", "1h")
	s.sees("1 of 1 nodes answer (1 needed), 0 locks held")
	s.resize(12, 5)
	s.sees("1 of 1 node…")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.sees(live.Leave)
	assert.Equal(t, 143, s.exit())
}

// TestTopIsSuspended: Ctrl-Z restores the terminal, and continuing shows the picture again.
func TestTopIsSuspended(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 1)
	s := watchOnTerminal(t, servers, "--interval", "1h")
	s.sees("1 of 1 nodes")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTSTP))
	s.sees(live.Leave)
	require.Eventually(t, func() bool { return state(s.cmd) == 'T' }, patience, time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	s.sees(live.Enter)
	s.sees("1 of 1 nodes")
	s.types(ctrlC)
	s.sees(live.Leave)
	assert.Zero(t, s.exit())
}

// state returns the state of a process, as the kernel names it.
func state(cmd *exec.Cmd) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if _, rest, ok := bytes.Cut(stat, []byte(") ")); err == nil && ok {
		return rest[0]
	}
	return 0
}
