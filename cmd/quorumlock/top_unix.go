//go:build unix

package main

import (
	"os"
	"syscall"
)

// screenSignals are those that concern a screen: another size, Ctrl-Z, and what comes after that.
var screenSignals = []os.Signal{syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT}

// signalled does what one of them asks for, but for the picture, which follows.
func (s *screen) signalled(sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		s.close()
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // a process may stop itself
	case syscall.SIGCONT:
		s.open()
	}
}
