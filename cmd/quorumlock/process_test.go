//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is the command in a separate process.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr logBuffer
	done   chan struct{}
}

// logBuffer is a buffer that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// begin starts the command.
func begin(t *testing.T, args ...string) *process {
	t.Helper()
	return beginCommand(t, selfCommand(t, args...))
}

func beginCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	// The test makes its own pipes: Wait would close the pipes of exec, and children of the command may outlive
	// it.
	stdin, w, err := os.Pipe()
	require.NoError(t, err)
	stdout, stdoutEnd, err := os.Pipe()
	require.NoError(t, err)
	p.stdin, p.cmd.Stdin = w, stdin
	p.stdout, p.cmd.Stdout = bufio.NewReader(stdout), stdoutEnd
	if p.cmd.Stderr == nil {
		p.cmd.Stderr = &p.stderr
	}
	p.cmd.WaitDelay = time.Second
	require.NoError(t, p.cmd.Start())
	require.NoError(t, stdin.Close())
	require.NoError(t, stdoutEnd.Close())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the tests look at ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_, _ = w.Close(), stdout.Close()
	})
	return p
}

func selfCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	// The race detector waits for a second at each exit otherwise.
	cmd.Env = append(os.Environ(), asCommandEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// line reads the next line that the command under the lock prints.
func (p *process) line() string {
	p.t.Helper()
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		text, err := p.stdout.ReadString('\n')
		got <- read{text, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			<-p.done
			require.NoError(p.t, r.err, p.stderr.String())
		}
		return r.text[:len(r.text)-1]
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
		require.FailNow(p.t, "nothing was printed", p.stderr.String())
		return ""
	}
}

// reply sends the line that a command waits for.
func (p *process) reply() {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, "\n")
	require.NoError(p.t, err)
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// exit waits for the end, and returns the exit code, or -1 after a signal.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		require.FailNow(p.t, "the command does not end")
		return 0
	}
}
