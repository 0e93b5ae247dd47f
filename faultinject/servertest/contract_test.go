// Package servertest tests the contract of [faultinject.Server], for servers of each kind.
package servertest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/container"
	"github.com/quorumlock/quorumlock/faultinject/process"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// silence is the time without data that counts as silence: far longer than an answer takes. patience bounds the wait
// for expected data.
const (
	silence  = 100 * time.Millisecond
	patience = 30 * time.Second
)

// kinds start n servers of a kind, and close them when the test ends.
var kinds = map[string]func(tb testing.TB, n int) *faultinject.Group{
	"process":   startProcesses,
	"container": startContainers,
}

func startProcesses(tb testing.TB, n int) *faultinject.Group {
	tb.Helper()
	group, err := process.Start(tb.Context(), n)
	return closing(tb, group, err)
}

// startContainers skips a test in short mode, and if there is no Docker engine. If QUORUMLOCK_DOCKER is "required", the
// test fails instead.
func startContainers(tb testing.TB, n int) *faultinject.Group {
	tb.Helper()
	if testing.Short() {
		tb.Skip("it needs Docker: make check")
	}
	if err := container.Available(tb.Context()); err != nil && os.Getenv("QUORUMLOCK_DOCKER") != "required" {
		tb.Skip(err)
	}
	group, err := container.Start(tb.Context(), n)
	return closing(tb, group, err)
}

func closing(tb testing.TB, group *faultinject.Group, err error) *faultinject.Group {
	tb.Helper()
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, group.Close()) })
	return group
}

// TestGroup: the servers of a group are named n1, n2 and so on, and each has its own address and data.
func TestGroup(t *testing.T) {
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			group := start(t, 3)
			addrs := make(map[string]bool)
			for i, s := range group.Servers() {
				require.Equal(t, fmt.Sprintf("n%d", i+1), s.Name())
				addrs[s.Addr()] = true
				require.Equal(t, "+OK", dial(t, s.Addr()).ask(t, "SET k "+s.Name()))
			}
			require.Len(t, addrs, 3)
			for _, s := range group.Servers() {
				require.Equal(t, s.Name(), command(t, s, "GET", "k"))
			}
		})
	}
}

// TestContract plays each test on a fresh running server.
func TestContract(t *testing.T) {
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
		{"hides its end while cut off", endWhileCutOff},
		{"steps its clock", clockSteps},
		{"steps its clock while down or paused", clockStepsUnseen},
		{"limits its memory", memoryLimit},
		{"limits its memory over restarts", memoryLimitStays},
		{"is bounded by contexts", bounded},
		{"takes calls at the same time", concurrent},
		{"does the faults of a plan", faults},
		{"is closed for good", closes},
	}
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			start(t, 0) // skips the whole kind where it cannot run
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) { test.test(t, start(t, 1).Servers()[0]) })
			}
		})
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
