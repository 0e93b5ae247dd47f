//go:build unix

package exit

import (
	"os"
	"slices"
	"syscall"
)

// Ending are the signals that ask a program to end.
var Ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// Caught are the signals that are passed on to a command.
var Caught = append(slices.Clip(Ending), syscall.SIGUSR1, syscall.SIGUSR2)
