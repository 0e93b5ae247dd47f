package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/render"
	"github.com/quorumlock/quorumlock/bench/worker"
	"github.com/quorumlock/quorumlock/faultinject/container"
)

// TestMain also runs the workers, which are this program started again.
func TestMain(m *testing.M) {
	worker.Main()
	goleak.VerifyTestMain(m)
}

func TestSmallRun(t *testing.T) {
	out := t.TempDir()
	r := measured(t, both(succeeded, operated), "-scenarios", "uncontended", "-peers", "redlock,floor", "-conc", "1", "-n", "3", "-rounds", "1", "-duration", "200ms", "-out", out)
	require.Len(t, r.Results, 2)
	for _, x := range r.Results {
		assert.Empty(t, x.Error)
		assert.Zero(t, x.Violations)
		if x.Peer == "redlock" {
			assert.Zero(t, x.KeysLeft)
			assert.LessOrEqual(t, x.GoroutinesClosed, x.GoroutinesBefore)
		}
	}
	for _, x := range r.Results {
		assert.Positive(t, x.Mallocs)
		assert.Positive(t, x.CPU)
		require.NotNil(t, x.Acquire)
		assert.InDelta(t, x.Ops, x.Acquire.Count, 1, "what began in the time may have ended behind it")
		// Three nodes, an acquire and its release; a straggler may be missing. The two nodes of the majority run one
		// script each for the acquire and the release. On the third, a release and the next acquire may go together.
		assert.Greater(t, x.Work.Scripts, 4*x.AllOps)
		assert.Less(t, float64(x.Work.Scripts), 6.5*float64(x.AllOps))
		assert.InEpsilon(t, x.Work.Scripts, x.Work.Sent, 0.02, "nothing is sent but scripts")
	}
	text, err := os.ReadFile(filepath.Join(out, "results.md"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "| 1 | redlock |")
}

func TestContendedRun(t *testing.T) {
	r := measured(t, func(x *cell.Result) string {
		return unless(x.Load != cell.Pass || x.Ops > 0 && x.Delay != nil && x.Switches > 0, "the lock passed from one caller to another")
	}, "-quick", "-scenarios", "passes,waiters", "-peers", "redlock", "-n", "3", "-duration", "200ms")
	require.Len(t, r.Results, 2)
	for _, x := range r.Results {
		assert.Empty(t, x.Error)
		assert.Zero(t, x.Violations)
		assert.Zero(t, x.KeysLeft)
		if x.Load == cell.Pass {
			assert.Equal(t, 8, x.Processes)
		}
	}
}

// TestQueueRun: the turns of the queue reach the callers of all processes.
func TestQueueRun(t *testing.T) {
	r := measured(t, both(operated, func(x *cell.Result) string {
		turns := x.Ops <= int64(4*x.Callers) || !slices.Contains(x.Grants, 0) // a starved process does not join the queue
		return unless(turns, "every caller had its turn")
	}), "-quick", "-scenarios", "passes", "-peers", "queue", "-n", "3", "-duration", "200ms")
	require.Len(t, r.Results, 1)
	for _, x := range r.Results {
		assert.Empty(t, x.Error, x.String())
		assert.Zero(t, x.Violations, x.String())
		assert.Zero(t, x.Failures, x.FirstFailure)
		assert.Zero(t, x.KeysLeft, x.String())
	}
}

// operated tells whether a run has done operations. In its short time, a starved machine may give it no processor.
func operated(x *cell.Result) string { return unless(x.Ops > 0, "operations were done") }

// succeeded tells whether no call failed. If a machine stalls, a release of this library may miss the answers of too
// many nodes. Other peers wait longer.
func succeeded(x *cell.Result) string {
	return unless(x.Failures == 0, "no call failed: "+x.FirstFailure)
}

func unless(seen bool, expected string) string {
	if seen {
		return ""
	}
	return expected
}

// both expects what two functions expect.
func both(a, b func(*cell.Result) string) func(*cell.Result) string {
	return func(x *cell.Result) string { return cmp.Or(a(x), b(x)) }
}

// TestNamesRun: no name comes twice, or all come by Zipf's law.
func TestNamesRun(t *testing.T) {
	r := measured(t, both(succeeded, operated), "-scenarios", "newnames,zipf", "-peers", "redlock,floor,floor-group", "-conc", "4", "-n", "3", "-rounds", "1", "-duration", "200ms")
	require.Len(t, r.Results, 4)
	for _, x := range r.Results {
		assert.Empty(t, x.Error, x.String())
		assert.Zero(t, x.Violations, x.String())
	}
}

// TestNetworkRun: the latency of the network is part of every call.
func TestNetworkRun(t *testing.T) {
	r := measured(t, operated, "-quick", "-scenarios", "network", "-n", "3", "-duration", "200ms")
	require.Len(t, r.Results, 1)
	x := r.Results[0]
	require.NotNil(t, x.Acquire)
	assert.Greater(t, x.Acquire.P50, 4.0, "2 ms each way")
	assert.Greater(t, x.Release.P50, 4.0)
}

// TestKindsRun: shared kinds keep their bounds, also between processes.
func TestKindsRun(t *testing.T) {
	r := measured(t, both(succeeded, operated), "-quick", "-scenarios", "kinds,kinds-contended", "-n", "3", "-duration", "200ms")
	for _, x := range r.Results {
		assert.Empty(t, x.Error, x.String())
		assert.Zero(t, x.Violations, x.String())
	}
}

func TestRecoveryRun(t *testing.T) {
	// The leases are renewed every third of a second. The runner and its worker keep time apart from each other. A lock
	// that a stalled caller holds for longer than usual is renewed, and a node that recovers takes that.
	r := measured(t, func(x *cell.Result) string {
		back := x.Recovery
		switch {
		case x.Lost > 0:
			return fmt.Sprintf("no lease was lost, but %d were", x.Lost)
		case back == nil:
			return "" // an error
		case !back.Never && back.Back+back.Gives < 1.5:
			return fmt.Sprintf("the node gave no locks for MaxTTL and MaxClockSkew, which are 1.5 s: %+v", back)
		case back.Never, math.Abs(back.Killed-1) > 0.5, back.Before == 0, back.After == 0:
			return fmt.Sprintf("the node was killed after a quarter of four seconds, and gave locks again, with operations before and after: %+v", back)
		default:
			return ""
		}
	}, "-quick", "-scenarios", "recovery", "-n", "3", "-duration", "1s")
	require.Len(t, r.Results, 1)
	x := r.Results[0]
	assert.Empty(t, x.Error)
	require.NotNil(t, x.Recovery)
	assert.Zero(t, x.Violations)
	assert.Positive(t, x.Pause)
}

// Nodes can be containers, and suffer the same there.
func TestContainersRun(t *testing.T) {
	needsDocker(t)
	r := measured(t, operated /* with a node hung or killed, both others must answer in time */, "-containers", "-quick", "-scenarios", "faults,recovery", "-peers", "redlock", "-n", "3", "-duration", "2s")
	faults := map[cluster.Fault]int{}
	for _, x := range r.Results {
		faults[x.Fault]++
		assert.Empty(t, x.Error, x.String())
		assert.Zero(t, x.Violations, x.String())
		assert.Positive(t, x.Work.CPU, x.String())
	}
	assert.Equal(t, map[cluster.Fault]int{cluster.None: 1, cluster.Hung: 1, cluster.Killed: 1, cluster.Restarted: 1}, faults)
}

// needsDocker skips a test in short mode, and where there is no Docker engine. It fails there if
// QUORUMLOCK_DOCKER is "required".
func needsDocker(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs Docker: make check")
	}
	err := container.Available(t.Context())
	if os.Getenv("QUORUMLOCK_DOCKER") == "required" {
		require.NoError(t, err)
	}
	if err != nil {
		t.Skip(err)
	}
}

func TestNothingToMeasure(t *testing.T) {
	err := run(t.Context(), []string{"-out", t.TempDir(), "-scenarios", "held", "-peers", "floor"}, new(bytes.Buffer))
	require.ErrorContains(t, err, "nothing to measure")
}

// measured runs the command, and returns its report. A stall of the machine of 200 ms harms a run: so it repeats the
// command until no result lacks something, five times at most.
func measured(t *testing.T, lacks func(*cell.Result) string, args ...string) *render.Report {
	t.Helper()
	var missing []string
	for range 5 {
		var progress bytes.Buffer
		r, err := report(t.Context(), append([]string{"-out", t.TempDir()}, args...), &progress)
		require.NoError(t, err, progress.String())
		missing = nil
		for i := range r.Results {
			x := &r.Results[i]
			if expected := lacks(x); expected != "" {
				missing = append(missing, fmt.Sprintf("expected: %s: %s %v", expected, x.String(), x.Grants))
			}
		}
		if len(missing) == 0 {
			return r
		}
		t.Log(missing)
	}
	t.Fatal(missing)
	return nil
}

func TestFlags(t *testing.T) {
	s, err := parse([]string{
		"-scenarios", "faults, nodes", "-peers", "floor", "-conc", "1,16", "-rounds", "5", "-duration", "3s", "-out", "x", "-seed", "7",
	}, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, "x", s.out)
	assert.Equal(t, []string{"faults", "nodes"}, s.options.Scenarios)
	assert.Equal(t, []string{"floor"}, s.options.Peers)
	assert.Equal(t, []int{1, 16}, s.options.Callers)
	assert.Equal(t, 5, s.options.Rounds)
	assert.Equal(t, 3*time.Second, s.options.Duration)
	assert.Equal(t, 5, s.options.Nodes)
	assert.Equal(t, uint64(7), s.options.Seed)
}

func TestDefaultsOfFlags(t *testing.T) {
	usual, err := parse(nil, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, "report", usual.out)
	assert.Equal(t, defaultRounds, usual.options.Rounds)
	assert.Equal(t, defaultDuration, usual.options.Duration)

	quick, err := parse([]string{"-quick"}, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, 1, quick.options.Rounds)
	assert.Equal(t, quickDuration, quick.options.Duration)

	given, err := parse([]string{"-nodes", "a:1,b:2,c:3", "-quick", "-rounds", "2"}, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1", "b:2", "c:3"}, given.options.Source.Addresses)
	assert.Equal(t, 3, given.options.Nodes, "as many as are given")
	assert.Equal(t, 2, given.options.Rounds, "what is said counts")
}

func TestInvalidFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-conc", "1,x"}, "is not a number of callers"},
		{[]string{"-conc", "0"}, "is not a number of callers"},
		{[]string{"-rounds", "0"}, "-rounds 0"},
		{[]string{"-duration", "1ms"}, "-duration 1ms"},
		{[]string{"-n", "4"}, "-n 4"},
		{[]string{"-containers", "-nodes", "a:1"}, "one of the two"},
		{[]string{"-goals", "-quick"}, "-goals and -quick"},
		{[]string{"-goals", "-peers", "redlock"}, "-goals and -peers"},
		{[]string{"-goals", "-conc", "1"}, "-goals and -conc"},
		{[]string{"-goals", "-n", "3"}, "-goals and -n"},
		{[]string{"-document", "x.md", "-quick"}, "-document and -quick"},
		{[]string{"-document", "x.md", "-scenarios", "faults"}, "-document and -scenarios"},
		{[]string{"more"}, `"more"`},
	} {
		_, err := parse(c.args, new(bytes.Buffer))
		require.ErrorContains(t, err, c.want, "%v", c.args)
	}
}
