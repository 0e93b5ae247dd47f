// Package child runs a command with everything that it starts: in a process group of its own, in the foreground of the
// terminal if there is one, and so that the whole group can be told to end, and be killed.
package child

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
)

const (
	// pipeGrace bounds how long output is still copied when the command has ended but its children have not. Output
	// to files is not copied at all.
	pipeGrace = time.Second
	// groupPoll is the interval at which to check whether a stopped command left children behind. The system does not
	// report that.
	groupPoll = 5 * time.Millisecond
)

// Command is a program, with all processes that it starts.
type Command struct {
	cmd *exec.Cmd
	// Done receives the result of the wait for its end, once.
	Done chan error
	// terminal is lent to the command if this process had it; nil otherwise.
	terminal *terminal
}

// New looks up the program, but does not start it.
func New(args []string, stdin io.Reader, stdout, stderr io.Writer) (*Command, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, notStarted(args[0], err)
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.WaitDelay = pipeGrace
	return &Command{cmd: cmd, Done: make(chan error, 1), terminal: foregroundTerminal(stdin)}, nil
}

// notStarted returns the error for a command that did not start, with the exit codes of shells.
func notStarted(name string, err error) error {
	code := exit.NotRunning
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exit.NotFound
	}
	// The full texts of these errors would repeat the name.
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return exit.Errorf(code, "cannot run %s: %w", name, err)
}

// Start runs the command with an environment, in its own process group where the system has process groups.
//
// The starting goroutine keeps its thread until the command has ended: Linux sends the signal of a parent's death
// when the parent's thread ends, not its process.
func (c *Command) Start(env []string) error {
	c.cmd.Env = env
	isolate(c.cmd, c.terminal)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.Done <- c.cmd.Wait()
		}
	}()
	err := <-started
	c.terminal.lent() // it may have been before an exec that failed
	if err != nil {
		c.End()
		return notStarted(c.cmd.Args[0], err)
	}
	return nil
}

// End takes the terminal back.
func (c *Command) End() { c.terminal.reclaim(c.cmd.Process) }

// Stop ends the command and everything in its process group: it asks first, and kills what remains after the grace
// period. It returns the result of the command when all is over.
func (c *Command) Stop(grace time.Duration) error {
	c.askToEnd()
	over := NewAlarm()
	defer over.Stop()
	over.Set(grace)
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	var result error
	for done := c.Done; done != nil || c.groupAlive(); {
		select {
		case result = <-done:
			done = nil
		case <-poll.C:
		case <-over.Rings:
			c.kill()
			if done != nil {
				result = <-done
			}
			return result
		}
	}
	return result
}

// Status translates the result of a command to quorumlock's own exit code.
func Status(result error) error {
	var failed *exec.ExitError
	switch {
	case result == nil, errors.Is(result, exec.ErrWaitDelay):
		return nil
	case !errors.As(result, &failed):
		return fmt.Errorf("waiting for the command: %w", result)
	}
	if sig := endedBy(failed.ProcessState); sig != nil {
		return exit.Silent(exit.OfSignal(sig))
	}
	return exit.Silent(failed.ExitCode())
}

// CatchSignals begins to receive the signals that [Command.Pass] passes on. A signal that the parent process ignored, as
// under nohup, stays ignored, for the command too.
func CatchSignals() chan os.Signal {
	received := make(chan os.Signal, 16)
	wanted := slices.DeleteFunc(slices.Clone(exit.Caught), signal.Ignored)
	if len(wanted) > 0 { // none would mean all
		signal.Notify(received, wanted...)
	}
	surviveBrokenPipes()
	return received
}
