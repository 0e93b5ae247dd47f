package main

import (
	"os"
	"os/signal"
	"slices"
)

// signals are those that quorumlock gets while it waits or a command runs.
type signals struct {
	received chan os.Signal
}

// catchSignals begins to receive them. A signal that whoever started quorumlock has
// turned off, as nohup does, stays off, for the command too.
func catchSignals() *signals {
	s := &signals{received: make(chan os.Signal, 16)}
	wanted := slices.DeleteFunc(slices.Clone(caught), signal.Ignored)
	if len(wanted) > 0 { // none would mean all
		signal.Notify(s.received, wanted...)
	}
	return s
}

func (s *signals) stop() { signal.Stop(s.received) }

// endsWaiting reports whether a signal ends the waiting for a lock. The others mean
// something to the command only, which does not exist yet.
func endsWaiting(sig os.Signal) bool { return slices.Contains(ending, sig) }
