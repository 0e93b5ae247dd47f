package render

import (
	"math"
	"strings"
	"testing"

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
		{goal{low: 2}, Stat{Median: 2, Rounds: 1}, reached},
		{goal{low: 2}, Stat{Median: 1.99, Max: 5, Rounds: 3}, notReached},
		{goal{high: 2}, Stat{Median: 2, Max: 5, Rounds: 3}, reached},
		{goal{high: 2}, Stat{Median: 2.01, Rounds: 1}, notReached},
		{goal{zero: true}, Stat{Rounds: 3}, reached},
		{goal{zero: true}, Stat{Max: 1, Rounds: 3}, notReached},
		{goal{zero: true}, Stat{}, unknown},
	} {
		assert.Equal(t, c.want, c.goal.verdict(c.stat), "%+v of %+v", c.stat, c.goal)
	}
}

func TestExtremes(t *testing.T) {
	assert.Equal(t, "-", Stat{}.median())
	assert.Equal(t, "-", newStat([]float64{1}).extremes(), "one round has none")
	assert.Equal(t, "1.00 - 3.00", newStat([]float64{3, 1, 2}).extremes())
}

// figures returns a result that reaches every goal by the smallest margin, relative to a floor, a redsync and a
// healthy run of 100 operations per second and calls of 100 us.
func figures(c cell.Cell) cell.Result {
	r := cell.Result{Cell: c, Round: 1, Rate: 100, Allocs: 12, Client: 20, ShareMin: 0.9, ShareMax: 1.1, SentRate: 2}
	r.GoroutinesBefore, r.GoroutinesAfter, r.HeapPerLease, r.CommandsPerRenewal = 99, 99, 1023, 0.01
	r.Acquire = &cell.Latency{P50: 100, P99: 100}
	r.Release = &cell.Latency{P50: 100, P99: 100}
	r.SentRate *= float64(c.Processes)
	r.Servers = 100 * float64(c.Nodes)
	r.Client *= float64(c.Nodes) / 5
	switch {
	case c.Peer == "floor" || c.Peer == "redsync":
	case c.Fault != cluster.None:
		r.Rate, r.Acquire.P99, r.Release.P99 = 95, 150, 150
	case c.Scenario == "uncontended":
		r.Rate = map[int]float64{1: 100, 16: 160, 128: 550, 1024: 230}[c.Callers]
		r.Acquire.P50 = 115
	case c.Load == cell.Pass:
		r.Rate = 400
	}
	return r
}

// measuredGoals is a run for the goals, of one round, with a change to each result.
func measuredGoals(t *testing.T, change func(*cell.Result)) *Report {
	t.Helper()
	o := runner.Options{Nodes: 5, Rounds: 1, Goals: true}
	plan, err := o.Plan()
	require.NoError(t, err)
	var results []cell.Result
	for _, c := range plan {
		r := figures(c)
		change(&r)
		results = append(results, r)
	}
	return New(o, plan, results)
}

// TestEveryGoalIsMeasuredInARunForThem: a run for the goals measures all cells that the goals need.
func TestEveryGoalIsMeasuredInARunForThem(t *testing.T) {
	r := measuredGoals(t, func(*cell.Result) {})
	goals := r.goals()
	assert.Len(t, goals.Rows, len(allGoals()))
	for _, row := range goals.Rows {
		assert.Equal(t, reached, row[3], "%v", row)
	}
	assert.Equal(t, len(goals.Rows)+1, strings.Count(r.Goals(), "\n"))
}

func TestEveryCellOfARunForTheGoalsMatters(t *testing.T) {
	o := runner.Options{Nodes: 5, Rounds: 1, Goals: true}
	plan, err := o.Plan()
	require.NoError(t, err)
	whole := measuredGoals(t, func(*cell.Result) {}).Goals()
	for _, c := range plan {
		if c.Scenario == "nodes" {
			continue // only the worst of many counts
		}
		changed := measuredGoals(t, func(r *cell.Result) {
			if r.String() == c.String() {
				r.Error = "not measured"
			}
		}).Goals()
		assert.NotEqual(t, whole, changed, "without %v", c)
	}
}

func TestEveryGoalCanBeMissed(t *testing.T) {
	r := measuredGoals(t, func(r *cell.Result) {
		if r.Peer == "floor" || r.Peer == "redsync" || r.Scenario == "faults" && r.Fault == cluster.None {
			return
		}
		r.Rate *= 0.3
		r.Allocs, r.Client, r.ShareMin, r.ShareMax, r.SentRate = 13, 30, 0.8, 1.2, 2.1*float64(r.Processes)
		r.GoroutinesAfter, r.HeapPerLease, r.CommandsPerRenewal = 100, 1100, 0.011
		r.KeysLeft, r.Lost, r.Violations = 1, 1, 1
		r.Servers *= math.Sqrt(float64(r.Nodes))
		for _, l := range []*cell.Latency{r.Acquire, r.Release} {
			l.P50, l.P99 = l.P50*1.1, l.P99*1.1
		}
	})
	for _, row := range r.goals().Rows {
		assert.Equal(t, notReached, row[3], "%v", row)
	}
}

func TestGoalsThatCouldNotBeMeasuredAreListed(t *testing.T) {
	r := New(runner.Options{Rounds: 1, Goals: true}, nil, nil)
	goals := r.goals()
	assert.Len(t, goals.Rows, len(allGoals()))
	for _, row := range goals.Rows {
		assert.Equal(t, unknown, row[3], "%v", row)
	}
}

func TestEveryViolationCounts(t *testing.T) {
	r := measured(1, "fair", 1, "", 0)
	r.Violations = 1
	report := New(runner.Options{Rounds: 1}, nil, []cell.Result{measured(1, "redlock", 1, "", 0), r})
	assert.Contains(t, report.goals().Rows, []string{"no lock of this library is held twice", "1.00", "-", notReached})
}

// TestGrowthWithTheNodes: a cost that grows with the nodes is within the goal; one that grows faster is not.
func TestGrowthWithTheNodes(t *testing.T) {
	at := func(nodes int, cpu float64) cell.Result {
		return cell.Result{
			Cell:  cell.Cell{Scenario: "nodes", Peer: "redlock", Load: cell.Cycle, Callers: 128, Processes: 1, Nodes: nodes},
			Round: 1, Servers: cpu,
		}
	}
	assert.InDelta(t, 1, growth(rows([]cell.Result{at(1, 10), at(3, 30), at(9, 90)}, nil)).Median, 1e-9)
	assert.InDelta(t, 1.5, growth(rows([]cell.Result{at(1, 10), at(3, 45), at(9, 80)}, nil)).Median, 1e-9)
	assert.Zero(t, growth(rows([]cell.Result{at(3, 30)}, nil)), "there is nothing to compare with")
}
