package runner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/peer"
)

func usualOptions() Options {
	return Options{Nodes: 5, Rounds: 1, Duration: time.Second}
}

func TestPlanOfAll(t *testing.T) {
	cells, err := usualOptions().Plan()
	require.NoError(t, err)
	seen := map[string]bool{}
	peers := map[string]bool{}
	for _, c := range cells {
		assert.False(t, seen[c.String()], "%s is there twice", c)
		seen[c.String()] = true
		peers[c.Peer] = true
		p, err := peer.Find(c.Peer)
		require.NoError(t, err)
		assert.True(t, p.Waits || !c.Load.Contended(), "%s cannot wait", c.Peer)
		assert.True(t, p.Renews || c.Load != cell.Hold, "%s does not renew", c.Peer)
		assert.LessOrEqual(t, c.Processes, c.Callers)
		assert.True(t, p.Waits || c.Load != cell.Zipf, "%s cannot wait", c.Peer)
		assert.LessOrEqual(t, c.Bad, (c.Nodes-1)/2, "a majority is always well")
		assert.Positive(t, c.Nodes)
	}
	assert.Len(t, peers, len(peer.All()), "every peer is measured somewhere")
}

func TestPlanOfSome(t *testing.T) {
	o := usualOptions()
	o.Scenarios, o.Peers, o.Callers = []string{"uncontended", "waiters"}, []string{"floor", "redsync"}, []int{3}
	cells, err := o.Plan()
	require.NoError(t, err)
	var names []string
	for _, c := range cells {
		names = append(names, c.String())
	}
	assert.Equal(t, []string{
		"uncontended/cycle/callers=3/processes=1/nodes=5/floor",
		"uncontended/cycle/callers=3/processes=1/nodes=5/redsync",
		"waiters/wait/callers=200/processes=1/nodes=5/redsync",
		"waiters/wait/callers=200/processes=8/nodes=5/redsync",
		"waiters/wait/callers=200/processes=200/nodes=5/redsync",
	}, names)
}

func TestQuickPlanHasEveryScenario(t *testing.T) {
	o := usualOptions()
	o.Quick, o.Duration = true, 300*time.Millisecond
	cells, err := o.Plan()
	require.NoError(t, err)
	scenarios := map[string]bool{}
	for _, c := range cells {
		scenarios[c.Scenario] = true
	}
	assert.Len(t, scenarios, len(Scenarios()))
	assert.LessOrEqual(t, len(cells), 30)
	var d time.Duration
	for _, c := range cells {
		d += estimate(c)
	}
	assert.LessOrEqual(t, d, QuickBudget, "nothing is left out")
}

func TestJobs(t *testing.T) {
	c := cell.Cell{Load: cell.Wait, Callers: 10, Processes: 3}
	var callers []int
	for i, j := range jobs(c) {
		assert.Equal(t, i, j.Index)
		assert.Equal(t, i == 3, j.Holder)
		callers = append(callers, j.Callers)
	}
	assert.Equal(t, []int{3, 3, 4, 0}, callers)
	c.Load = cell.Cycle
	assert.Len(t, jobs(c), 3, "only the lock that others wait for is held")
}

func TestGoalsRunFitsItsTime(t *testing.T) {
	o := Options{Nodes: 5, Rounds: 3, Duration: 2 * time.Second, Goals: true}
	goals, err := o.Plan()
	require.NoError(t, err)
	assert.Less(t, o.Estimate(goals), 15*time.Minute)
	o.Document = true
	cells, err := o.Plan()
	require.NoError(t, err)
	assert.Less(t, o.Estimate(cells), 25*time.Minute)
	assert.Subset(t, cells, goals, "the document has the goals, too")
	seen := map[string]bool{}
	for _, c := range cells {
		assert.False(t, seen[c.String()], "%s is there twice", c)
		seen[c.String()] = true
	}
}

func TestEstimate(t *testing.T) {
	plain := cell.Cell{Load: cell.Cycle, Processes: 1, Settle: time.Second, Duration: 2 * time.Second}
	crowd, held := plain, plain
	crowd.Processes = 8
	held.Load, held.Callers = cell.Hold, 100_000
	assert.Equal(t, 3*time.Second+perCell, estimate(plain))
	assert.Greater(t, estimate(crowd), estimate(plain))
	assert.Greater(t, estimate(held), 10*time.Second)

	o := Options{Rounds: 3}
	assert.Equal(t, 6*estimate(plain), o.Estimate([]cell.Cell{plain, plain}))
	o.Quick = true
	assert.Equal(t, QuickBudget, o.Estimate([]cell.Cell{held, held}), "a quick run ends in time")
}

// TestProgress: if all cells so far took twice their estimate, the rest is expected to do the same.
func TestProgress(t *testing.T) {
	c := cell.Cell{Load: cell.Cycle, Processes: 1, Duration: 10*time.Second - perCell}
	p := progress{began: time.Now().Add(-20 * time.Second), whole: 30 * time.Second}
	assert.InDelta(t, 40, p.left(c).Seconds(), 1)
}

func TestHeldLockOutlastsTheWait(t *testing.T) {
	o := usualOptions()
	o.Duration, o.Scenarios = time.Minute, []string{"waiters"}
	cells, err := o.Plan()
	require.NoError(t, err)
	for _, c := range cells {
		assert.Less(t, c.Settle+c.Duration, c.TTL)
	}
}

func TestPlanRefusesUnknownNames(t *testing.T) {
	o := usualOptions()
	o.Scenarios = []string{"nonsense"}
	_, err := o.Plan()
	require.ErrorContains(t, err, `no scenario "nonsense"; there are uncontended`)
	o = usualOptions()
	o.Peers = []string{"nonsense"}
	_, err = o.Plan()
	require.ErrorContains(t, err, `no peer "nonsense"; there are redlock`)
}

func TestMixedKeepsGroupsTogether(t *testing.T) {
	cells, err := usualOptions().Plan()
	require.NoError(t, err)
	order := mixed(cells, rand.New(rand.NewPCG(1, 0)))
	assert.ElementsMatch(t, cells, order)
	assert.NotEqual(t, cells, order)
	over := map[string]bool{}
	last := ""
	for _, c := range order {
		if c.Group() != last {
			assert.False(t, over[c.Group()], "%s is torn apart", c.Group())
			over[last] = true
			last = c.Group()
		}
	}
	assert.Equal(t, order, mixed(cells, rand.New(rand.NewPCG(1, 0))), "the seed says it all")
}

func TestImpossibleCellsAreLeftOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var told []string
	tell := func(format string, _ ...any) { told = append(told, format) }
	cells := []cell.Cell{
		{Peer: "redisson-redlock"}, {Peer: "floor", Nodes: 3}, {Peer: "floor", Nodes: 5}, {Peer: "floor", Nodes: 3, Fault: cluster.Hung, Bad: 1},
	}
	left := possible(cells, cluster.Source{}, tell)
	assert.Equal(t, cells[1:], left)
	assert.Len(t, told, 1)

	told = nil
	left = possible(cells, cluster.Source{Addresses: []string{"a", "b", "c"}}, tell)
	assert.Equal(t, cells[1:2], left)
	assert.Len(t, told, 3)
}
