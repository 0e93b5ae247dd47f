//go:build !unix

package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// This file stands for what only Unix has: process groups, job control, and signals about a terminal.

// ending are the signals that ask a program to end, and caught the signals that are passed on to a command.
var (
	ending = []os.Signal{os.Interrupt, syscall.SIGTERM}
	caught = ending
)

func isolate(*exec.Cmd, *terminal) {}

// pass does nothing: Ctrl-C reaches every process of a console by itself.
func (c *command) pass(os.Signal) {}

// askToEnd kills the command, because there is no way to ask.
func (c *command) askToEnd() { c.kill() }

func (c *command) kill() { _ = c.cmd.Process.Kill() } // it may have ended this instant

func adopt(bool) {}

func (c *command) groupAlive() bool { return false }

func endedBy(*os.ProcessState) os.Signal { return nil }

type terminal struct{}

func foregroundTerminal(io.Reader) *terminal { return nil }

func (t *terminal) lent() {}

func (t *terminal) reclaim(*os.Process) {}

var screenSignals []os.Signal

func (s *screen) signalled(os.Signal) {}
