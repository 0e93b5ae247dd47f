//go:build !unix

package child

import (
	"io"
	"os"
	"os/exec"
)

// This file stands for what only Unix has: process groups and job control.

func isolate(*exec.Cmd, *terminal) {}

// Pass does nothing: Ctrl-C reaches every process of a console by itself.
func (c *Command) Pass(os.Signal) {}

// surviveBrokenPipes does nothing: there is no signal for them.
func surviveBrokenPipes() {}

// askToEnd kills the command, because there is no way to ask.
func (c *Command) askToEnd() { c.kill() }

func (c *Command) kill() { _ = c.cmd.Process.Kill() } // it may have ended this instant

func (c *Command) groupAlive() bool { return false }

func endedBy(*os.ProcessState) os.Signal { return nil }

type terminal struct{}

func foregroundTerminal(io.Reader) *terminal { return nil }

func (t *terminal) lent() {}

func (t *terminal) reclaim(*os.Process) {}
