package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/runner"
)

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		goal goal
		stat Stat
		want string
	}{
		{goal{figure: "ops/s", low: 2}, Stat{Median: 2, Rounds: 1}, reached},
		{goal{figure: "ops/s", low: 2}, Stat{Median: 1.99, Max: 5, Rounds: 3}, notReached},
		{goal{figure: "ops/s", high: 2}, Stat{Median: 2, Max: 5, Rounds: 3}, reached},
		{goal{figure: "ops/s", high: 2}, Stat{Median: 2.01, Rounds: 1}, notReached},
		{goal{figure: "keys left"}, Stat{Rounds: 3}, reached},
		{goal{figure: "keys left"}, Stat{Max: 1, Rounds: 3}, notReached},
		{goal{figure: "keys left"}, Stat{}, unknown},
	} {
		assert.Equal(t, c.want, c.goal.verdict(c.stat), "%+v of %+v", c.stat, c.goal)
	}
}

func TestExtremesNeedSeveralRounds(t *testing.T) {
	assert.Equal(t, "-", Stat{}.median())
	assert.Equal(t, "-", newStat([]float64{1}).extremes(), "one round has none")
	assert.Equal(t, "1.00 - 3.00", newStat([]float64{3, 1, 2}).extremes())
}

// everything is a result of a cell in which each figure was measured.
func everything(c cell.Cell) cell.Result {
	latency := &cell.Latency{P50: 0.1, P99: 0.1}
	r := cell.Result{Cell: c, Round: 1, Passed: time.Second, Acquire: latency, Release: latency}
	r.Outcome = cell.Outcome{Seconds: 1, Ops: 1000, AllOps: 1000, CPU: 1, Mallocs: 1, Grants: []int64{1, 1}, Renewals: 1, Heap: 1}
	if c.Peer == "floor" {
		r.Ops = 500
	}
	r.Work = cluster.Work{Servers: c.Nodes, CPU: time.Second, Sent: 1, Scripts: 1, Commands: 1}
	return r
}

// ofAGoalsRun is the report of a run for the goals of one round.
func ofAGoalsRun(t *testing.T) *Report {
	t.Helper()
	o := runner.Options{Nodes: 5, Rounds: 1}
	plan, err := o.Plan()
	require.NoError(t, err)
	var results []cell.Result
	for _, c := range plan {
		results = append(results, everything(c))
	}
	return New(o, plan, results)
}

// TestEveryGoalIsMeasuredInARunForThem: a run for the goals measures all cells that the goals need.
func TestEveryGoalIsMeasuredInARunForThem(t *testing.T) {
	r := ofAGoalsRun(t)
	for _, g := range goals {
		assert.NotZero(t, g.value(r.rows).Rounds, "%+v", g)
	}
	assert.NotContains(t, r.Goals(), unknown)
	assert.Contains(t, r.Goals(), fmt.Sprintf("of %d goals are reached", len(goals)))
}

func TestGoalsThatCouldNotBeMeasuredAreListed(t *testing.T) {
	text := New(runner.Options{Rounds: 1}, nil, nil).Goals()
	assert.Equal(t, len(goals), strings.Count(text, unknown))
}

func TestQuickRunHasNoVerdicts(t *testing.T) {
	r := ofAGoalsRun(t)
	r.options = runner.Options{Rounds: 1, Quick: true}
	assert.NotContains(t, r.markdown(), reached)
	assert.Contains(t, r.markdown(), "Its figures mean nothing")
}

// TestMissedGoalsShowWhatTheyTake: if a cell misses a goal, its counts stand beside the counts of its reference.
func TestMissedGoalsShowWhatTheyTake(t *testing.T) {
	r := ofAGoalsRun(t)
	assert.Empty(t, new(Report).counts(), "nothing was measured")
	for i := range r.rows {
		if result := &r.rows[i].results[0]; result.Scenario == "newnames" && result.Peer == "redlock" && result.Callers == 128 {
			result.Ops = 0
			result.Transfers, result.Wakeups, result.Work.Transfers, result.Work.Wakeups = 2000, 3000, 4000, 5000
		}
	}
	text := r.counts()
	assert.Contains(t, text, "| newnames | 128 | healthy | redlock | 1000 | 1000 | 0.001 | 0.001 | 2.00 | 3.00 | 4.00 | 5.00 |")
	assert.Contains(t, text, "| newnames | 128 | healthy | floor-group | 1000 | 1000 | 0.001 | 0.001 | - | - | - | - |")
	assert.NotContains(t, text, "multilock", "its goal is reached")
}

func TestEveryViolationCounts(t *testing.T) {
	r := measured(1, "nohandover", 1, "", 0)
	r.Violations = 1
	report := New(runner.Options{Rounds: 1}, nil, []cell.Result{measured(1, "redlock", 1, "", 0), r})
	assert.Contains(t, report.Goals(), "| violations | at most 0 | 1.00 | - | not reached |")
}

// TestReferences: a goal compares its cell with another peer, with the run without faults, with patient callers, or with
// one node, of which the worst counts.
func TestReferences(t *testing.T) {
	at := func(ops int64, change func(*cell.Cell)) cell.Result {
		c := cell.Cell{Scenario: "s", Peer: "redlock", Load: cell.NewNames, Callers: 16, Processes: 1, Nodes: 5}
		change(&c)
		r := everything(c)
		r.Ops = ops
		return r
	}
	all := rows([]cell.Result{
		at(100, func(*cell.Cell) {}),
		at(50, func(c *cell.Cell) { c.Peer = "floor" }),
		at(80, func(c *cell.Cell) { c.Fault, c.Bad = cluster.Hung, 1 }),
		at(30, func(c *cell.Cell) { c.Callers, c.Patience = 512, 10*time.Millisecond }),
		at(200, func(c *cell.Cell) { c.Nodes = 1 }),
		at(300, func(c *cell.Cell) { c.Nodes = 3 }),
	}, nil)
	for _, c := range []struct {
		size, variant, to string
		want              float64
	}{
		{"16", "1 hung", "healthy", 0.8},
		{"512", "10ms of patience", "16 callers", 0.3},
		{"16", "", "1 nodes", 1.5},
	} {
		g := goal{scenario: "s", peer: "redlock", size: c.size, variant: c.variant, figure: "ops/s", to: c.to}
		assert.InDelta(t, c.want, g.value(all).Median, 1e-9, c.to)
	}
	assert.InDelta(t, 2, all[0].ratio(all[0].reference(all, "floor"), named("ops/s")).Median, 1e-9)
	assert.Nil(t, all[0].reference(all, "redsync"), "it was not measured")
}
