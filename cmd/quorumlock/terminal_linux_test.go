package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal. It returns the user's end, and the path of the programs' end.
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

// session is the command on its own terminal.
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
	// This test keeps the programs' end open: once all programs have closed it, reads may fail before they have
	// returned what was written.
	t.Cleanup(func() { _ = tty.Close() })
	require.NoError(t, cmd.Start())
	s := &session{t: t, user: user, cmd: cmd}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return s
}

// sees reads until the terminal shows the text, for patience at most.
func (s *session) sees(text string) {
	s.t.Helper()
	for !bytes.Contains(s.seen, []byte(text)) {
		s.more()
	}
	_, s.seen, _ = bytes.Cut(s.seen, []byte(text))
}

func (s *session) more() {
	s.t.Helper()
	require.NoError(s.t, s.user.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 4096)
	n, err := s.user.Read(buf)
	require.NoError(s.t, err, "after %q", s.seen)
	s.seen = append(s.seen, buf[:n]...)
}

// number reads the number at the end of the current line.
func (s *session) number() (n int) {
	s.t.Helper()
	for !bytes.ContainsRune(s.seen, '\n') {
		s.more()
	}
	_, err := fmt.Sscan(string(s.seen), &n)
	require.NoError(s.t, err)
	return n
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

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	s := onTerminal(t, selfCommand(t, script(`n=0; trap 'n=$((n+1))' INT; echo ready; while [ $n = 0 ]; do sleep 0.02; done; sleep 0.2; echo "n=$n"; exit 8`)...))
	s.sees("ready")
	s.types(ctrlC)
	s.sees("n=1")
	assert.Equal(t, 8, s.exit())
}

func TestCtrlZIsIgnored(t *testing.T) {
	s := onTerminal(t, selfCommand(t, script(`echo ready; read x; echo "got $x"`)...))
	s.sees("ready")
	s.types(ctrlZ + "hello\n")
	s.sees("got hello")
	assert.Zero(t, s.exit())
}

// TestSignalEndsACommandThatWaitsForTheTerminal: a background process that reads the terminal is stopped, and must
// still end.
func TestSignalEndsACommandThatWaitsForTheTerminal(t *testing.T) {
	self := selfCommand(t, script(`echo "pid $$"; read x < /dev/tty; echo not reached`)...)
	cmd := exec.Command("sh", append([]string{"-c", `"$@" </dev/null & echo "parent $!"; wait $!; echo "code $?"`, "sh"}, self.Args...)...)
	cmd.Env = self.Env
	s := onTerminal(t, cmd)
	s.sees("parent ")
	parent := s.number()
	s.sees("pid ")
	pid := s.number()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && bytes.Contains(stat, []byte(") T "))
	}, patience, 5*time.Millisecond)
	require.NoError(t, syscall.Kill(parent, syscall.SIGTERM))
	s.sees("code 143")
	assert.Zero(t, s.exit())
}

// TestTerminalIsGivenBack: the calling script has the terminal again after quorumlock.
func TestTerminalIsGivenBack(t *testing.T) {
	for name, self := range map[string]*exec.Cmd{
		"after the command": selfCommand(t, script(`echo ready; read x`)...),
		// The time is long enough for a shell that a busy machine starts late.
		"after one that is killed": selfCommand(t, script(`trap "" TERM; echo ready; read x; read x`, "--max-hold", "2s", "--kill-after", "10ms")...),
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", append([]string{"-c", `"$@"; echo next; read y; echo "then $y"`, "sh"}, self.Args...)...)
			cmd.Env = self.Env
			s := onTerminal(t, cmd)
			s.sees("ready")
			s.types("a\n")
			s.sees("next")
			s.types("b\n")
			s.sees("then b")
			assert.Zero(t, s.exit())
		})
	}
}

// TestTerminalIsGivenBackByACommandThatCannotStart: its process had the foreground before the exec failed.
func TestTerminalIsGivenBackByACommandThatCannotStart(t *testing.T) {
	noFormat := filepath.Join(t.TempDir(), "noformat")
	require.NoError(t, os.WriteFile(noFormat, []byte("\x00\x01"), 0o700))
	self := selfCommand(t, "run", "--embedded", "3", "--key", "k", "--", noFormat)
	cmd := exec.Command("sh", append([]string{"-c", `"$@"; echo "code $?"; read y; echo "then $y"`, "sh"}, self.Args...)...)
	cmd.Env = self.Env
	s := onTerminal(t, cmd)
	s.sees("code 126")
	s.types("b\n")
	s.sees("then b")
	assert.Zero(t, s.exit())
}
