package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// client is a place for client processes, one after the other.
type client struct {
	settings settings
	lives    int
	cmd      *exec.Cmd
	stdin    io.Closer
	// ended is closed when the process ends.
	ended <-chan struct{}
	// early has the errors of processes that ended unasked.
	early error
}

// start starts a process, with its own name in the history.
func (c *client) start() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("chaos: a client: %w", err)
	}
	c.lives++
	s := c.settings
	s.Label = c.label()
	s.Seed += uint64(1000 * c.lives)
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), environment+"="+string(text))
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	// A Ctrl-C does not reach the client: the program ends it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The client ends with the program, even if it is frozen and does not see the end of its standard input.
	if c.ended, err = redisproc.Spawn(c.cmd); err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	return nil
}

// label is the name of the current process.
func (c *client) label() string {
	if c.lives > 1 {
		return fmt.Sprintf("%s.%d", c.settings.Label, c.lives)
	}
	return c.settings.Label
}

// gone reports whether the process has ended unasked, and keeps its error.
func (c *client) gone() bool {
	select {
	case <-c.ended:
		how := "it is not known how"
		if c.cmd.ProcessState != nil {
			how = c.cmd.ProcessState.String()
		}
		c.early = errors.Join(c.early, fmt.Errorf("%s ended before it was asked to: %s", c.label(), how))
		return true
	default:
		return false
	}
}

func (c *client) signal(s syscall.Signal) error {
	if c.gone() {
		return nil // the report has it
	}
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("chaos: %s: %v: %w", c.settings.Label, s, err)
	}
	return nil
}

// kill ends the process at once, frozen or not.
func (c *client) kill() error {
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// ask asks the process to end: its workers end, and then it waits for finish.
func (c *client) ask() error { return c.signal(syscall.SIGTERM) }

// finish lets an asked process end, and returns its error.
func (c *client) finish(within time.Duration) error {
	_ = c.stdin.Close()
	select {
	case <-c.ended:
		if state := c.cmd.ProcessState; state == nil || !state.Success() {
			return fmt.Errorf("it ended: %v", state)
		}
		return nil
	case <-time.After(within):
		return errors.Join(errors.New("it does not end"), c.kill())
	}
}
