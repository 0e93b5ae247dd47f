package redisproc

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// command runs a command that must succeed.
func command(t *testing.T, s *Server, args ...string) string {
	t.Helper()
	text, err := s.Command(args...)
	require.NoError(t, err, "%v", args)
	return text
}

// pingTCP asks over TCP, where clients are.
func pingTCP(addr string, timeout time.Duration) error {
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err = converse(conn, [][]string{{"PING"}})
	return err
}

func TestStartCleansUp(t *testing.T) {
	var s *Server
	t.Run("inner", func(t *testing.T) {
		s = Start(t)
		s.Pause() // a stopped server must go as well
	})
	assert.Zero(t, s.PID())
	assert.NoDirExists(t, s.Dir())
	require.Error(t, pingTCP(s.Addr(), time.Second))
}

func TestLaunchAndClose(t *testing.T) {
	s, err := TryLaunch(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "PONG", command(t, s, "PING"))
	s.Close()
	s.Close()
	assert.NoDirExists(t, s.Dir())
	assert.Panics(t, s.Restart, "there is nothing left to restart")
	assert.Panics(t, s.Pause)
	s.Resume()
}

func TestLaunchShowsTheLog(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := TryLaunch(t.Context(), WithArgs("--no-such-setting", "1"))
	require.ErrorContains(t, err, "no-such-setting")
	assertEmptyDir(t, tmp)
}

func TestLaunchWithoutRedis(t *testing.T) {
	t.Setenv(ProgramEnv, "")
	t.Setenv("PATH", t.TempDir())
	_, err := TryLaunch(t.Context())
	require.ErrorContains(t, err, "make setup")
}

func TestLaunchWithLongTempDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	require.NoError(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	s := Start(t)
	assert.Less(t, len(s.Socket()), 100)
	assertEmptyDir(t, long)
}

func assertEmptyDir(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTakenPortIsRecognised(t *testing.T) {
	s := Start(t)
	s.Kill()
	s.mu.Lock()
	s.releasePorts() // as on a system on which they cannot be kept
	l, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	err = s.start(t.Context())
	s.mu.Unlock()
	require.ErrorIs(t, err, errPortTaken)

	require.NoError(t, l.Close())
	s.Restart()
	require.NoError(t, pingTCP(s.Addr(), commandTimeout))
}

func TestServerThatEndedItself(t *testing.T) {
	s := Start(t)
	_, err := s.Command("SHUTDOWN", "NOSAVE")
	require.Error(t, err, "the connection breaks")
	require.Eventually(t, func() bool { return s.PID() == 0 }, commandTimeout, pollInterval)
	s.Resume()
	s.Restart()
	assert.Equal(t, "PONG", command(t, s, "PING"))
}

func TestPassword(t *testing.T) {
	s := Start(t, WithPassword(`se"cr et`))
	assert.Equal(t, "PONG", command(t, s, "PING"))
	var refused ReplyError
	require.ErrorAs(t, pingTCP(s.Addr(), commandTimeout), &refused)
	assert.Contains(t, refused.Error(), "NOAUTH")
	s.Restart()
	assert.Empty(t, s.Keys())
}

// A port is the server's own while that is down: connections are refused, and others cannot listen.
func TestDeadServerKeepsItsPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems may let a port go")
	}
	s := Start(t)
	require.NoError(t, pingTCP(s.Addr(), commandTimeout)) // a connection that the kill leaves behind
	for _, end := range []func(){s.Kill, func() { require.NoError(t, s.TryStop(t.Context())) }} {
		end()
		require.ErrorIs(t, pingTCP(s.Addr(), commandTimeout), syscall.ECONNREFUSED)
		_, err := net.Listen("tcp", s.Addr())
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		s.Restart()
		require.NoError(t, pingTCP(s.Addr(), commandTimeout))
	}
}

// A program may look for several ports before it uses the first.
func TestFreePortsDiffer(t *testing.T) {
	t.Parallel()
	given := make(map[int]bool)
	for range 2000 {
		port, err := FreePort()
		require.NoError(t, err)
		require.False(t, given[port], "port %d was given twice", port)
		given[port] = true
	}
}
