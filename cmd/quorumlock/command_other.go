//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// isolate does nothing: this system has no process groups to signal.
func isolate(*exec.Cmd, *terminal) {}

// pass does nothing: Ctrl-C reaches every process of a console by itself.
func (c *command) pass(os.Signal) {}

// askToEnd kills the command, because there is no way to ask.
func (c *command) askToEnd() { c.kill() }

func (c *command) kill() { _ = c.cmd.Process.Kill() } // it may have ended this instant

// adopt does nothing: this system has no process groups.
func adopt(bool) {}

// groupAlive reports false: this system has no process groups.
func (c *command) groupAlive() bool { return false }

// endedBy returns nil: no signal ends a process here.
func endedBy(*os.ProcessState) os.Signal { return nil }
