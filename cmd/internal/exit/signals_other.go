//go:build !unix

package exit

import (
	"os"
	"syscall"
)

// Ending are the signals that ask a program to end, and Caught the signals that are passed on to a command.
var (
	Ending = []os.Signal{os.Interrupt, syscall.SIGTERM}
	Caught = Ending
)
