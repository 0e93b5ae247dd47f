package render

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/runner"
)

func TestStat(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Stat
		text   string
	}{
		{nil, Stat{}, "-"},
		{[]float64{math.NaN(), math.Inf(1)}, Stat{}, "-"},
		{[]float64{7}, Stat{Median: 7, Min: 7, Max: 7, Rounds: 1}, "7.00"},
		{[]float64{30, 10, 20}, Stat{Median: 20, Min: 10, Max: 30, Rounds: 3}, "20.0 ±50%"},
		{[]float64{4, 1, 2, 3}, Stat{Median: 2.5, Min: 1, Max: 4, Rounds: 4}, "2.50 ±60%"},
		{[]float64{0, 0, 5}, Stat{Median: 0, Min: 0, Max: 5, Rounds: 3}, "0"},
	} {
		s := newStat(c.values)
		assert.Equal(t, c.want, s)
		assert.Equal(t, c.text, s.String())
	}
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.00123: "0.0012", 0.5: "0.50", 12.34: "12.3", 1234: "1234", 56_789: "56.8k"} {
		assert.Equal(t, want, short(v))
	}
}

func TestFigures(t *testing.T) {
	r := cell.Result{Cell: cell.Cell{Load: cell.Pass, Callers: 4, Nodes: 5}, Passed: 4 * time.Second}
	r.Outcome = cell.Outcome{Seconds: 2, Ops: 20, AllOps: 40, Mallocs: 80, CPU: 0.002, Grants: []int64{5, 5, 2, 8}}
	r.Work = cluster.Work{Servers: 5, CPU: 4 * time.Millisecond, Commands: 400, Scripts: 200, Sent: 240}
	held := cell.Result{Cell: cell.Cell{Load: cell.Hold, Callers: 10}, Work: cluster.Work{Servers: 2, Sent: 20}}
	held.Heap, held.Renewals = 1000, 50
	for _, c := range []struct{ got, want float64 }{
		{rate(r), 10},
		{allocs(r), 2},
		{client(r), 50},
		{servers(r), 100},
		{named("CPU us/op and node").of(r), 30},
		{commands(r), 10},
		{sentRate(r), 12},
		{scriptRate(r), 10},
		{commandRate(r), 20},
		{shareMin(r), 0.4},
		{shareMax(r), 1.6},
		{heapPerLease(held), 100},
		{commandsPerRenewal(held), 0.2},
	} {
		assert.InDelta(t, c.want, c.got, 1e-9)
	}
	for _, name := range []string{
		"ops/s", "allocs/op", "commands sent a second and node", "least share", "acquire p50 ms", "calls given up",
	} {
		assert.True(t, math.IsNaN(named(name).of(held)), "%s was not measured", name)
	}
	assert.True(t, math.IsNaN(heapPerLease(r)))
}

func measured(round int, peer string, rate float64, fault cluster.Fault, bad int) cell.Result {
	latency := &cell.Latency{Count: 1, P50: 0.1 / rate, P99: 0.3 / rate}
	return cell.Result{
		Cell: cell.Cell{
			Scenario: "faults", Peer: peer, Load: cell.Cycle, Callers: 16, Processes: 1, Nodes: 5, Fault: fault, Bad: bad,
		},
		Outcome: cell.Outcome{Seconds: 1, Ops: int64(rate)},
		Round:   round, Acquire: latency, Release: latency,
	}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	results := []cell.Result{
		measured(1, "redlock", 200, "", 0), measured(1, "floor", 100, "", 0),
		measured(2, "redlock", 20, "", 0), measured(2, "floor", 10, "", 0),
		measured(3, "redlock", 1, "", 0), // no floor in this round
	}
	all := rows(results, nil)
	require.Len(t, all, 2)
	s := all[0].ratio(all[0].reference(all, "floor"), named("ops/s"))
	assert.Equal(t, Stat{Median: 2, Min: 2, Max: 2, Rounds: 2}, s)
	assert.Zero(t, all[0].ratio(all[0].reference(all, "redsync"), named("ops/s")), "there is none")
}

func TestRowsAreInTheOrderOfThePlan(t *testing.T) {
	results := []cell.Result{measured(1, "floor", 1, "", 0), measured(1, "redlock", 1, "", 0)}
	plan := []cell.Cell{results[1].Cell, measured(1, "redsync", 1, "", 0).Cell, results[0].Cell}
	all := rows(results, plan)
	require.Len(t, all, 2, "what was not measured is left out")
	assert.Equal(t, "redlock", all[0].Peer)
}

func TestFailedRounds(t *testing.T) {
	bad := measured(2, "redlock", 0, "", 0)
	bad.Error = "no | server"
	all := rows([]cell.Result{measured(1, "redlock", 10, "", 0), bad}, nil)
	require.Len(t, all, 1)
	assert.Equal(t, Stat{Median: 10, Min: 10, Max: 10, Rounds: 1}, all[0].stat(named("ops/s")))
	text := table(all, all)
	assert.Contains(t, text, `| 1: no \| server |`)
}

func sample() *Report {
	var results []cell.Result
	for round := 1; round <= 3; round++ {
		results = append(
			results,
			measured(round, "redlock", 100, "", 0), measured(round, "redlock", 97, cluster.Hung, 1),
			measured(round, "redlock", 50, cluster.Killed, 2),
			measured(round, "redsync", 20, "", 0), measured(round, "redsync", 1, cluster.Hung, 1),
		)
	}
	return New(runner.Options{Rounds: 3, Duration: time.Second}, nil, results)
}

func TestReportIsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, Write(dir, sample()))

	text, err := os.ReadFile(filepath.Join(dir, "results.md"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "## Nodes that hang, die, or are slow")
	assert.Contains(t, string(text), "| variant | callers | peer | ops/s | x redsync | x healthy |")
	assert.Contains(t, string(text), "| 1 hung | 16 | redlock | 97.0 ±0% | 97.0 | 0.97 |")
}

// TestReportHasEachFigure: the report has a row for each goal and each cell.
func TestReportHasEachFigure(t *testing.T) {
	text := ofAGoalsRun(t).markdown()
	for _, row := range []string{
		"| newnames | 128 |  | redlock | ops/s | at least 2.00 x floor | 2.00 | - | reached |",
		"| 128 | redlock | 1000 | 2.00 | 1.00 |",
		"| 10ms of patience | 512 | redlock | 1000 |",
	} {
		assert.Contains(t, text, row)
	}
}

func TestErrorsAreEscaped(t *testing.T) {
	bad := measured(1, "redlock", 0, "", 0)
	bad.Error = "<script>"
	text := New(runner.Options{Rounds: 1}, nil, []cell.Result{bad}).markdown()
	assert.NotContains(t, text, "<script>")
}
