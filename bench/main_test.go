package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/render"
	"github.com/quorumlock/quorumlock/bench/worker"
)

// TestMain also runs the workers, which are this program started again.
func TestMain(m *testing.M) {
	worker.Main()
	goleak.VerifyTestMain(m)
}

func TestSmallRun(t *testing.T) {
	out := t.TempDir()
	r := measured(t, both(succeeded, operated), "-quick", "-scenarios", "uncontended", "-peers", "redlock,floor", "-n", "3", "-duration", "200ms", "-out", out)
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
		had := slices.DeleteFunc(slices.Clone(x.Grants), func(n int64) bool { return n == 0 })
		return unless(x.Ops > 0 && x.Delay != nil && len(had) > 1, "the lock passed from one caller to another")
	}, "-quick", "-scenarios", "passes", "-peers", "redlock", "-n", "3", "-duration", "200ms")
	require.Len(t, r.Results, 1)
	for _, x := range r.Results {
		assert.Empty(t, x.Error)
		assert.Zero(t, x.Violations)
		assert.Zero(t, x.KeysLeft)
		assert.Equal(t, 8, x.Processes)
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

// TestRunsOfNamesAndKinds: no name comes twice, or callers want something else than a lock.
func TestRunsOfNamesAndKinds(t *testing.T) {
	for scenarios, of := range map[string]struct {
		peers string
		cells int
	}{
		"newnames": {"redlock,floor,floor-group", 3},
		"kinds":    {"semaphore,rwlock-readers,kinds", 3},
	} {
		r := measured(t, both(succeeded, operated), "-quick", "-scenarios", scenarios, "-peers", of.peers, "-n", "3", "-duration", "200ms")
		require.Len(t, r.Results, of.cells)
		for _, x := range r.Results {
			assert.Empty(t, x.Error, x.String())
			assert.Zero(t, x.Violations, x.String())
		}
	}
}

// TestHeldRun: what callers ask or wait for stays held, by a process of its own.
func TestHeldRun(t *testing.T) {
	r := measured(t, succeeded, "-quick", "-scenarios", "waiters,denials", "-peers", "redlock,full-16", "-n", "3", "-duration", "200ms")
	require.Len(t, r.Results, 4)
	for _, x := range r.Results {
		assert.Empty(t, x.Error, x.String())
		assert.Zero(t, x.Violations, x.String())
		assert.Zero(t, x.Lost, x.String())
		assert.Equal(t, x.Load == cell.Deny, x.Ops > 0, "%s: denials, and no grants: %d", x.String(), x.Ops)
	}
}

// TestOverloadRun: callers that give up are counted, and are no failures.
func TestOverloadRun(t *testing.T) {
	r := measured(t, both(succeeded, func(x *cell.Result) string { return unless(x.Patience == 0 || x.GaveUp > 0, "callers gave up") }),
		"-quick", "-scenarios", "overload", "-n", "3", "-duration", "200ms")
	require.Len(t, r.Results, 3)
	for _, x := range r.Results {
		assert.Empty(t, x.Error)
		assert.Zero(t, x.Violations)
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
		"-scenarios", "faults, nodes", "-peers", "floor", "-rounds", "5", "-duration", "3s", "-out", "x",
	}, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, "x", s.out)
	assert.Equal(t, []string{"faults", "nodes"}, s.options.Scenarios)
	assert.Equal(t, []string{"floor"}, s.options.Peers)
	assert.Equal(t, 5, s.options.Rounds)
	assert.Equal(t, 3*time.Second, s.options.Duration)
	assert.Equal(t, 5, s.options.Nodes)
}

func TestDefaultsOfFlags(t *testing.T) {
	usual, err := parse(nil, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, "report", usual.out)
	assert.Equal(t, 3, usual.options.Rounds)
	assert.Equal(t, defaultDuration, usual.options.Duration)

	quick, err := parse([]string{"-quick"}, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, 1, quick.options.Rounds)
	assert.Equal(t, quickDuration, quick.options.Duration)

	given, err := parse([]string{"-quick", "-rounds", "2"}, new(bytes.Buffer))
	require.NoError(t, err)
	assert.Equal(t, 2, given.options.Rounds, "what is said counts")
}

func TestInvalidFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-rounds", "0"}, "-rounds 0"},
		{[]string{"-duration", "1ms"}, "-duration 1ms"},
		{[]string{"-n", "4"}, "-n 4"},
		{[]string{"more"}, `"more"`},
	} {
		_, err := parse(c.args, new(bytes.Buffer))
		require.ErrorContains(t, err, c.want, "%v", c.args)
	}
}
