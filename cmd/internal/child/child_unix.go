//go:build unix

package child

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// isolate gives the command its own process group, so that a signal reaches exactly the processes that it started. If
// this process has the foreground of the terminal, the command gets it.
//
// The command inherits that Ctrl-Z is ignored. That is the Unix convention for "no shell here would continue you".
func isolate(cmd *exec.Cmd, t *terminal) {
	signal.Ignore(syscall.SIGTSTP)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if t != nil {
		cmd.SysProcAttr.Foreground = true
		cmd.SysProcAttr.Ctty = t.fd
	}
	signalOnDeath(cmd.SysProcAttr)
}

// Pass forwards a signal to the command. A signal that ends programs goes to the whole group, as it would from a
// terminal. User-defined signals go to the command alone: its children would die of them.
func (c *Command) Pass(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1, syscall.SIGUSR2:
		_ = c.cmd.Process.Signal(sig) // it may have ended this instant
	default:
		c.interrupt(sig.(syscall.Signal)) //nolint:forcetypeassert // all signals of unix are
	}
}

// surviveBrokenPipes lets a write to a pipe without a reader fail. Otherwise a message about a lost lock would end this
// process before it has stopped the command. The command does not inherit that.
func surviveBrokenPipes() {
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

func (c *Command) askToEnd() { c.interrupt(syscall.SIGTERM) }

// interrupt sends a signal that asks the group to end. A stopped process, such as one that reads from a terminal in
// the background, sees it only when continued. So interrupt continues the group.
func (c *Command) interrupt(sig syscall.Signal) {
	c.signalGroup(sig)
	c.signalGroup(syscall.SIGCONT)
}

func (c *Command) kill() { c.signalGroup(syscall.SIGKILL) }

// groupAlive reports whether the group has a process left after the command itself was waited for. One that has ended
// and is not reaped, as in a container whose first process reaps no children, counts until the grace period is over.
func (c *Command) groupAlive() bool {
	err := syscall.Kill(-c.cmd.Process.Pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func (c *Command) signalGroup(sig syscall.Signal) {
	_ = syscall.Kill(-c.cmd.Process.Pid, sig) // no such group: it has ended
}

// endedBy returns the signal that ended a process, or nil.
func endedBy(state *os.ProcessState) os.Signal {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return nil
}
