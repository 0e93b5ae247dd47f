package render

import (
	"fmt"
	"math"
	"slices"
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
		{goal{low: 2}, Stat{Median: 2, Rounds: 1}, reached},
		{goal{low: 2}, Stat{Median: 1.99, Max: 5, Rounds: 3}, notReached},
		{goal{high: 2}, Stat{Median: 2, Max: 5, Rounds: 3}, reached},
		{goal{high: 2}, Stat{Median: 2.01, Rounds: 1}, notReached},
		{goal{worst: true}, Stat{Rounds: 3}, reached},
		{goal{worst: true}, Stat{Max: 1, Rounds: 3}, notReached},
		{goal{worst: true}, Stat{}, unknown},
	} {
		assert.Equal(t, c.want, c.goal.verdict(c.stat), "%+v of %+v", c.stat, c.goal)
	}
}

func TestExtremesNeedSeveralRounds(t *testing.T) {
	assert.Equal(t, "-", Stat{}.median())
	assert.Equal(t, "-", newStat([]float64{1}).extremes(), "one round has none")
	assert.Equal(t, "1.00 - 3.00", newStat([]float64{3, 1, 2}).extremes())
}

// atGoals returns a result that reaches every goal by the smallest margin. The floor, the queue, redsync and the
// healthy run have 100 operations per second, and calls of 100 us.
func atGoals(c cell.Cell) cell.Result {
	latency := cell.Latency{P50: 0.1, P99: 0.1}
	acquire, release := latency, latency
	r := cell.Result{Cell: c, Round: 1, Passed: time.Second, Acquire: &acquire, Release: &release}
	r.Seconds, r.Ops, r.AllOps = 1, 1000, 1000
	r.Mallocs, r.CPU = 12_000, 0.02*float64(c.Nodes)/5
	r.Work.Servers, r.Work.CPU = c.Nodes, 100*time.Millisecond*time.Duration(c.Nodes)
	r.Grants = []int64{90, 100, 110}
	r.GoroutinesBefore, r.Goroutines = 99, 99
	r.Heap = 1023 * int64(c.Callers)
	r.Work.Sent, r.Work.Scripts = 2*int64(c.Nodes*c.Processes), 100*int64(c.Nodes)
	if c.Load == cell.Hold {
		r.Renewals = r.Work.Sent * 100 / int64(c.Nodes)
	}
	switch {
	case c.Peer != "redlock" && c.Peer != "nohandover":
	case c.Fault != cluster.None:
		r.Ops, r.Acquire.P99, r.Release.P99 = 950, 0.15, 0.15
	case c.Scenario == "uncontended":
		r.Ops = map[int]int64{1: 1000, 16: 1600, 128: 5500, 1024: 2300}[c.Callers]
		r.Acquire.P50 = 0.115
	case c.Scenario == "newnames":
		r.Ops = map[int]int64{16: 1300, 128: 2000}[c.Callers]
	case c.Load == cell.Pass:
		r.Ops = map[int]int64{2: 800, 16: 1200, 64: 9000}[c.Callers]
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
		r := atGoals(c)
		change(&r)
		results = append(results, r)
	}
	return New(o, plan, results)
}

// TestEveryGoalIsMeasuredInARunForThem: a run for the goals measures all cells that the goals need.
func TestEveryGoalIsMeasuredInARunForThem(t *testing.T) {
	r := measuredGoals(t, func(*cell.Result) {})
	lines := r.goals()
	require.Len(t, lines, len(goals))
	for _, line := range lines {
		assert.Equal(t, reached, line[len(line)-1], "%v", line)
	}
	assert.Contains(t, r.Goals(), fmt.Sprintf("%d of %d goals are reached", len(lines), len(lines)))
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
		if r.Peer != "redlock" && r.Peer != "nohandover" || r.Scenario == "faults" && r.Fault == cluster.None {
			return
		}
		r.Ops = r.Ops * 3 / 10
		r.Mallocs, r.CPU, r.Grants = 13_000, 0.03, []int64{80, 100, 120}
		r.Work.Sent, r.Work.Scripts = r.Work.Sent*11/10, 101*int64(r.Nodes)
		r.Goroutines, r.Heap = 100, 1100*int64(r.Callers)
		r.KeysLeft, r.Lost, r.Violations = 1, 1, 1
		r.Work.CPU = time.Duration(float64(r.Work.CPU) * math.Sqrt(float64(r.Nodes)))
		for _, l := range []*cell.Latency{r.Acquire, r.Release} {
			l.P50, l.P99 = l.P50*1.1, l.P99*1.1
		}
	})
	for _, line := range r.goals() {
		assert.Equal(t, notReached, line[len(line)-1], "%v", line)
	}
}

func TestQuickRunHasNoVerdicts(t *testing.T) {
	o := runner.Options{Nodes: 5, Rounds: 1, Quick: true}
	plan, err := o.Plan()
	require.NoError(t, err)
	var results []cell.Result
	for _, c := range plan {
		results = append(results, atGoals(c))
	}
	r := New(o, plan, results)
	text := r.markdown()
	assert.NotContains(t, text, "reached")
	assert.Contains(t, text, "Its figures mean nothing")
}

func TestGoalsThatCouldNotBeMeasuredAreListed(t *testing.T) {
	r := New(runner.Options{Rounds: 1, Goals: true}, nil, nil)
	lines := r.goals()
	assert.Len(t, lines, len(goals))
	for _, line := range lines {
		assert.Equal(t, unknown, line[len(line)-1], "%v", line)
	}
}

func TestEveryViolationCounts(t *testing.T) {
	r := measured(1, "nohandover", 1, "", 0)
	r.Violations = 1
	report := New(runner.Options{Rounds: 1}, nil, []cell.Result{measured(1, "redlock", 1, "", 0), r})
	require.Len(t, report.goals(), 1)
	assert.Equal(t, []string{"violations", "at most 0", "1.00", "-", notReached}, report.goals()[0][4:])
}

// TestGrowthWithTheNodes: a cost that grows with the nodes is within the goal; one that grows faster is not.
func TestGrowthWithTheNodes(t *testing.T) {
	at := func(nodes int, cpu float64) cell.Result {
		return cell.Result{
			Cell:  cell.Cell{Scenario: "nodes", Peer: "redlock", Load: cell.Cycle, Callers: 128, Processes: 1, Nodes: nodes},
			Round: 1, Outcome: cell.Outcome{AllOps: 1000}, Work: cluster.Work{CPU: time.Duration(cpu) * time.Millisecond},
		}
	}
	growth := func(results ...cell.Result) Stat {
		i := slices.IndexFunc(goals, func(g goal) bool { return g.scenario == "nodes" })
		return goals[i].value(rows(results, nil))
	}
	assert.InDelta(t, 1, growth(at(1, 10), at(3, 30), at(9, 90)).Median, 1e-9)
	assert.InDelta(t, 1.5, growth(at(1, 10), at(3, 45), at(9, 80)).Median, 1e-9)
	assert.Zero(t, growth(at(3, 30)), "there is nothing to compare with")
}
