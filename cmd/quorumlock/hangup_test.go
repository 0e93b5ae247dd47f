//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// Processes of tests inherit ignored signals. Under nohup, and in some CI environments, SIGHUP and SIGQUIT are
// ignored. In child processes, a signal that this process catches has its usual meaning again.
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
