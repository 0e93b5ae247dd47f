package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
)

const (
	// pipeGrace bounds how long output is still copied when the command has ended but its children have not. Output
	// to files is not copied at all.
	pipeGrace = time.Second
	// groupPoll is the interval at which to check whether a stopped command left children behind. The system does not
	// report that.
	groupPoll = 5 * time.Millisecond
)

// command is the program that runs under the lock, with all processes that it starts.
type command struct {
	cmd *exec.Cmd
	// done receives the result of cmd.Wait, once.
	done chan error
	// terminal is lent to the command if this process had it; nil otherwise.
	terminal *terminal
}

// newCommand looks up the program, but does not start it.
func newCommand(args []string, a *app) (*command, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, notStarted(args[0], err)
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Stdin = a.stdin
	cmd.Stderr = a.stderr.direct()
	cmd.Stdout = a.stdout
	cmd.WaitDelay = pipeGrace
	return &command{cmd: cmd, done: make(chan error, 1), terminal: foregroundTerminal(a.stdin)}, nil
}

// notStarted returns the error for a command that did not start, with the exit codes of shells.
func notStarted(name string, err error) error {
	code := exitNotRunning
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
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
	return &exitError{code: code, err: fmt.Errorf("cannot run %s: %w", name, err)}
}

// ownersEnv has the ids (quorumlock.OwnerInfo) of the owners of all locks that a command runs under, the outermost
// first.
const ownersEnv = "QUORUMLOCK_OWNERS"

// outerOwners returns the owners of the leases that this process itself runs under.
func outerOwners() []string { return strings.Fields(os.Getenv(ownersEnv)) }

// setEnv sets the environment variables that describe the lock. It replaces the variables of an outer quorumlock. It
// removes the nodes' passwords, which the command must not see.
func (c *command) setEnv(keys []string, lease *lease) {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, nodesEnv+"=") })
	c.cmd.Env = append(inherited,
		"QUORUMLOCK_OWNER="+lease.Owner(),
		ownersEnv+"="+strings.Join(append(outerOwners(), quorumlock.ParseOwner(lease.Owner()).ID), " "),
		"QUORUMLOCK_TOKEN="+strconv.FormatUint(lease.Token(), 10),
		"QUORUMLOCK_KEY="+keys[0],
		"QUORUMLOCK_KEYS="+strings.Join(keys, "\n"),
		"QUORUMLOCK_PERMITS="+strings.Trim(fmt.Sprint(lease.Slots()), "[]"),
		"QUORUMLOCK_VALID_UNTIL="+lease.ValidUntil().UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	)
}

// start runs the command, in its own process group where the system has process groups.
//
// The starting goroutine keeps its thread until the command has ended: Linux sends the signal of a parent's death
// when the parent's thread ends, not its process.
func (c *command) start() error {
	isolate(c.cmd, c.terminal)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.done <- c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		c.terminal.lent() // before the exec failed
		c.end()
		return notStarted(c.cmd.Args[0], err)
	}
	c.terminal.lent()
	return nil
}

// end takes the terminal back.
func (c *command) end() { c.terminal.reclaim(c.cmd.Process) }

// stop ends the command and everything in its process group: it asks first, and kills what remains after the grace
// period. It returns the result of cmd.Wait when all is over.
func (c *command) stop(grace time.Duration) error {
	adopt(true)
	defer adopt(false)
	c.askToEnd()
	over := newAlarm()
	defer over.stop()
	over.set(grace)
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	var result error
	for done := c.done; done != nil || c.groupAlive(); {
		select {
		case result = <-done:
			done = nil
		case <-poll.C:
		case <-over.rings:
			c.kill()
			if done != nil {
				result = <-done
			}
			return result
		}
	}
	return result
}

// status translates the result of cmd.Wait to quorumlock's own exit code.
func (c *command) status(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil
	case !errors.As(err, &exit):
		return fmt.Errorf("waiting for the command: %w", err)
	}
	if sig := endedBy(exit.ProcessState); sig != nil {
		return &exitError{code: signalCode(sig)}
	}
	return &exitError{code: exit.ExitCode()}
}
