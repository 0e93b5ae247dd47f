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
