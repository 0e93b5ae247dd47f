//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// What is ignored stays ignored in the processes that tests start, and under nohup, or in some
// environments of continuous integration, SIGHUP and SIGQUIT are. A signal that this process catches
// has its usual meaning there again.
func init() {
	if os.Getenv(asCommandEnv) != "" {
		return
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
