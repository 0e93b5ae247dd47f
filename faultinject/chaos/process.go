package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// client is a place for a client process: one after the other has it.
type client struct {
	settings settings
	lives    int
	cmd      *exec.Cmd
	stdin    io.Closer
	// ended is closed when the process is, and exit says how.
	ended chan struct{}
	exit  error
}

// start starts a process, with a name of its own in the history.
func (c *client) start() error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("chaos: a client: %w", err)
	}
	c.lives++
	s := c.settings
	if c.lives > 1 {
		s.Label = fmt.Sprintf("%s.%d", s.Label, c.lives)
	}
	s.Seed += uint64(1000 * c.lives)
	variable, err := s.encode()
	if err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), variable)
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	ended := make(chan struct{})
	c.ended = ended
	go func(cmd *exec.Cmd) {
		c.exit = cmd.Wait()
		close(ended)
	}(c.cmd)
	return nil
}

func (c *client) signal(s syscall.Signal) error {
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("chaos: %s: %v: %w", c.settings.Label, s, err)
	}
	return nil
}

// kill ends the process at once, frozen or not.
func (c *client) kill() error {
	err := c.signal(syscall.SIGKILL)
	<-c.ended
	return err
}

var errLinger = errors.New("it does not end")

// finish asks the process to end, and reports how it did.
func (c *client) finish(within time.Duration) error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.ended:
		return c.exit
	case <-time.After(within):
		return errors.Join(errLinger, c.kill())
	}
}
