package main

import (
	"os"
	"os/signal"
	"slices"
)

// signals receives signals while quorumlock waits or a command runs.
type signals struct {
	received chan os.Signal
}

// catchSignals begins to receive signals. A signal that the parent process ignored, as under nohup, stays ignored,
// for the command too.
func catchSignals() *signals {
	s := &signals{received: make(chan os.Signal, 16)}
	wanted := slices.DeleteFunc(slices.Clone(caught), signal.Ignored)
	if len(wanted) > 0 { // none would mean all
		signal.Notify(s.received, wanted...)
	}
	return s
}

func (s *signals) stop() { signal.Stop(s.received) }

// endsWaiting reports whether a signal ends the wait for a lock. Other signals are for the command, which has not
// started yet.
func endsWaiting(sig os.Signal) bool { return slices.Contains(ending, sig) }
