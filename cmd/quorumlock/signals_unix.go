//go:build unix

package main

import (
	"os"
	"slices"
	"syscall"
)

// ending are the signals that ask a program to end.
var ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// caught are the signals that are passed on to a command.
var caught = append(slices.Clip(ending), syscall.SIGUSR1, syscall.SIGUSR2)

// screenSignals are the signals that concern a screen: resize, Ctrl-Z, and continue.
var screenSignals = []os.Signal{syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT}

// signalled handles such a signal. The caller draws the picture afterwards.
func (s *screen) signalled(sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		s.close()
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // a process may stop itself
	case syscall.SIGCONT:
		s.open()
	}
}
