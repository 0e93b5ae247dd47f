//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// isolate gives the command a process group of its own, so that a signal reaches all
// that it started and nothing else, and the foreground of the terminal if this process
// has that.
//
// The command inherits that Ctrl-Z is ignored: it is told so, in the way of unix, that
// nobody here would continue it.
func isolate(cmd *exec.Cmd, t *terminal) {
	signal.Ignore(syscall.SIGTSTP)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if t != nil {
		cmd.SysProcAttr.Foreground = true
		cmd.SysProcAttr.Ctty = t.fd
	}
	signalOnDeath(cmd.SysProcAttr)
}

// pass hands a signal on that quorumlock got. What ends programs is for the whole
// group, as it would be if it came from a terminal. The user's signals are an
// arrangement with the command alone: its children would die of them.
func (c *command) pass(sig os.Signal) {
	switch sig {
	case syscall.SIGUSR1, syscall.SIGUSR2:
		_ = c.cmd.Process.Signal(sig) // it may have ended this instant
	default:
		c.interrupt(sig.(syscall.Signal)) //nolint:forcetypeassert // all signals of unix are
	}
}

func (c *command) askToEnd() { c.interrupt(syscall.SIGTERM) }

// interrupt sends a signal that asks to end. Who is stopped, such as by reading from a
// terminal in the background, sees it only when continued.
func (c *command) interrupt(sig syscall.Signal) {
	c.signalGroup(sig)
	c.signalGroup(syscall.SIGCONT)
}

func (c *command) kill() { c.signalGroup(syscall.SIGKILL) }

// groupAlive reports whether a process of the group is left, when the command itself has
// been waited for.
func (c *command) groupAlive() bool {
	reap(c.cmd.Process.Pid)
	err := syscall.Kill(-c.cmd.Process.Pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func (c *command) signalGroup(sig syscall.Signal) {
	_ = syscall.Kill(-c.cmd.Process.Pid, sig) // no such group: it has ended
}

// endedBy is the signal that ended a process, or nil.
func endedBy(state *os.ProcessState) os.Signal {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return nil
}
