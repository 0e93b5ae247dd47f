//go:build unix

package live

import (
	"os"
	"syscall"
)

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
