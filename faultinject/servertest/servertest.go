// Package servertest is the contract of [faultinject.Server] as tests, for each kind of server.
package servertest

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
)

// silence is the time without data that counts as silence: far longer than an answer takes. patience bounds the wait
// for expected data.
const (
	silence  = 300 * time.Millisecond
	patience = 30 * time.Second
)

// Run runs the contract. start returns a fresh running server, and closes it when the test ends.
func Run(t *testing.T, start func(t *testing.T) faultinject.Server) {
	tests := []struct {
		name string
		test func(t *testing.T, s faultinject.Server)
	}{
		{"answers", answers},
		{"keeps its data over kill and start", killKeepsData},
		{"keeps its data over stop and start", stopKeepsData},
		{"comes back empty when wiped", wipeLosesData},
		{"refuses to be wiped while it runs", wipeNeedsDown},
		{"breaks connections when it ends", endBreaksConnections},
		{"hangs while paused and runs what came", pauseHangs},
		{"can be killed while paused, and drops what came", killWhilePaused},
		{"can be stopped while paused", stopWhilePaused},
		{"cannot be paused while down", pauseNeedsRunning},
		{"is silent to old connections while cut off", cutOffSilencesOld},
		{"is silent to new connections while cut off", cutOffSilencesNew},
		{"tells nobody of its end while cut off", endWhileCutOff},
		{"steps its clock", clockSteps},
		{"steps its clock while down or paused", clockStepsUnseen},
		{"limits its memory", memoryLimit},
		{"limits its memory over restarts", memoryLimitStays},
		{"is bounded by contexts", bounded},
		{"takes calls at the same time", concurrent},
		{"does the faults of a plan", faults},
		{"is closed for good", closes},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(t, start(t)) })
	}
}

// within bounds a test, so that a hang fails.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// command runs a command that must succeed.
func command(t *testing.T, s faultinject.Server, args ...string) string {
	t.Helper()
	text, err := s.Command(within(t), args...)
	require.NoError(t, err)
	return text
}
