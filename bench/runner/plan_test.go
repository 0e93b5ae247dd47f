package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
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
		assert.True(t, p.Waits || !c.Load.Contended() && !c.Load.Waits(), "%s cannot wait", c.Peer)
		assert.True(t, p.Ours || c.Load != cell.Hold && c.Load != cell.Deny, "%s cannot do that", c.Peer)
		assert.LessOrEqual(t, c.Processes, c.Callers)
		assert.LessOrEqual(t, c.Bad, (c.Nodes-1)/2, "a majority is always well")
		assert.Positive(t, c.Nodes)
	}
	assert.Len(t, peers, len(peer.All()), "every peer is measured somewhere")
}

func TestPlanOfSome(t *testing.T) {
	o := usualOptions()
	o.Scenarios, o.Peers = []string{"uncontended", "waiters"}, []string{"floor", "redsync"}
	cells, err := o.Plan()
	require.NoError(t, err)
	var names []string
	for _, c := range cells {
		names = append(names, c.String())
	}
	assert.Equal(t, []string{
		"uncontended/cycle/callers=1/processes=1/nodes=5/floor",
		"uncontended/cycle/callers=16/processes=1/nodes=5/floor",
		"uncontended/cycle/callers=128/processes=1/nodes=5/floor",
		"uncontended/cycle/callers=1024/processes=1/nodes=5/floor",
		"uncontended/cycle/callers=1/processes=1/nodes=5/redsync",
		"uncontended/cycle/callers=128/processes=1/nodes=5/redsync",
		"waiters/wait/callers=200/processes=1/nodes=5/redsync",
	}, names)
}

// spent is about the time that it takes to measure cells on two cores: each starts and ends servers and workers.
func spent(cells []cell.Cell) (d time.Duration) {
	for _, c := range cells {
		d += 700*time.Millisecond + time.Duration(c.Processes)*50*time.Millisecond + c.Settle + c.Duration
		if c.Load.Waits() {
			d += cell.Overtime
		}
	}
	return d
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
	assert.Less(t, spent(cells), time.Minute)
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

func TestRunFitsItsTime(t *testing.T) {
	o := usualOptions()
	o.Duration = 2 * time.Second
	cells, err := o.Plan()
	require.NoError(t, err)
	assert.Less(t, 3*spent(cells), 35*time.Minute)
}

func TestHeldLockOutlastsTheWait(t *testing.T) {
	o := usualOptions()
	o.Duration, o.Scenarios = time.Minute, []string{"waiters", "denials"}
	cells, err := o.Plan()
	require.NoError(t, err)
	for _, c := range cells {
		assert.Less(t, c.Settle+c.Duration+cell.Overtime, c.TTL)
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
	order := mixed(cells)
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
}
