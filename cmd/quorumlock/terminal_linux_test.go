package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal: what stands for the user, and the path of what
// programs see.
func openTerminal(t *testing.T) (user *os.File, path string) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = user.Close() })
	conn, err := user.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) {
		var number int
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
		path = fmt.Sprintf("/dev/pts/%d", number)
	}))
	require.NoError(t, err)
	return user, path
}

// session is the command on a terminal of its own.
type session struct {
	t    *testing.T
	user *os.File
	cmd  *exec.Cmd
	seen []byte
}

func onTerminal(t *testing.T, cmd *exec.Cmd) *session {
	t.Helper()
	user, path := openTerminal(t)
	tty, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	s := &session{t: t, user: user, cmd: cmd}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return s
}

// sees reads until the terminal shows something new.
func (s *session) sees(text string) {
	s.t.Helper()
	buf := make([]byte, 4096)
	for {
		if i := bytes.Index(s.seen, []byte(text)); i >= 0 {
			s.seen = s.seen[i+len(text):]
			return
		}
		n, err := s.user.Read(buf)
		require.NoError(s.t, err, "%q does not appear, but %q", text, s.seen)
		s.seen = append(s.seen, buf[:n]...)
	}
}

func (s *session) types(keys string) {
	s.t.Helper()
	_, err := io.WriteString(s.user, keys)
	require.NoError(s.t, err)
}

func (s *session) exit() int {
	s.t.Helper()
	_ = s.cmd.Wait() // the tests look at ProcessState
	return s.cmd.ProcessState.ExitCode()
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func TestTerminalInput(t *testing.T) {
	s := onTerminal(t, selfCommand(t, script(`echo ready; read x; echo "got $x"`)...))
	s.sees("ready")
	s.types("hello\n")
	s.sees("got hello")
	assert.Zero(t, s.exit())
}

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	s := onTerminal(t, selfCommand(t, script(`n=0; trap 'n=$((n+1))' INT; echo ready; while [ $n = 0 ]; do sleep 0.02; done; sleep 0.2; echo "n=$n"; exit 8`)...))
	s.sees("ready")
	s.types(ctrlC)
	s.sees("n=1")
	assert.Equal(t, 8, s.exit())
}

func TestCtrlCEndsTheCommand(t *testing.T) {
	s := onTerminal(t, selfCommand(t, script("echo ready; sleep 60")...))
	s.sees("ready")
	s.types(ctrlC)
	assert.Equal(t, 130, s.exit())
}

func TestCtrlZIsIgnored(t *testing.T) {
	s := onTerminal(t, selfCommand(t, script(`echo ready; read x; echo "got $x"`)...))
	s.sees("ready")
	s.types(ctrlZ + "hello\n")
	s.sees("got hello")
	assert.Zero(t, s.exit())
}

// A script that goes on after quorumlock has the terminal again.
func TestTerminalIsGivenBack(t *testing.T) {
	self := selfCommand(t, script(`echo ready; read x`)...)
	for name, text := range map[string]string{
		"after the command":        `"$@"; read y; echo "then $y"`,
		"after one that is killed": `"$@" & read y; kill -TERM $!; wait $!; echo "then $y"`,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", append([]string{"-c", text, "sh"}, self.Args...)...)
			cmd.Env = self.Env
			s := onTerminal(t, cmd)
			s.sees("ready")
			s.types("a\n")
			s.types("b\n")
			s.sees("then ")
			assert.Zero(t, s.exit())
		})
	}
}

func TestColoursOnATerminal(t *testing.T) {
	_, path := openTerminal(t)
	tty, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()
	t.Setenv("TERM", "xterm")
	assert.True(t, wantsColour(tty))
	t.Setenv("NO_COLOR", "1")
	assert.False(t, wantsColour(tty))
	t.Setenv("NO_COLOR", "")
	assert.True(t, wantsColour(tty), "an empty NO_COLOR means nothing")
	t.Setenv("TERM", "dumb")
	assert.False(t, wantsColour(tty))
}
