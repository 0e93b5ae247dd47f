//go:build !unix

package main

import (
	"os"
	"syscall"
)

// ending are the signals that ask a program to end.
var ending = []os.Signal{os.Interrupt, syscall.SIGTERM}

var caught = ending
