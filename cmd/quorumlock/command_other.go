//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// isolate does nothing: there are no process groups to signal here.
func isolate(*exec.Cmd, *terminal) {}

// pass does nothing: Ctrl-C reaches every process of a console by itself.
func (c *command) pass(os.Signal) {}

// askToEnd kills, as there is no way to ask.
func (c *command) askToEnd() { c.kill() }

func (c *command) kill() { _ = c.cmd.Process.Kill() } // it may have ended this instant

// adopt is about process groups.
func adopt(bool) {}

// groupAlive is about process groups.
func (c *command) groupAlive() bool { return false }

// endedBy is about signals.
func endedBy(*os.ProcessState) os.Signal { return nil }
