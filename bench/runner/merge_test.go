package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
	"github.com/quorumlock/quorumlock/bench/worker"
)

func TestMergedResult(t *testing.T) {
	h := cell.NewHistogram()
	h.Record(0, time.Millisecond, 5)
	encoded, err := h.Encode()
	require.NoError(t, err)
	outcome := worker.Outcome{
		Seconds: 2, Ops: 10, AllOps: 20, Violations: 1, Switches: 4, Mallocs: 40, CPU: 0.001, Goroutines: 3,
		Timeline: []int64{4, 6}, Grants: []int64{5, 5}, Acquire: encoded, Release: encoded, Delay: encoded,
	}
	other := outcome
	other.Grants, other.FirstFailure, other.Failures = []int64{2, 8}, "no", 1
	work := cluster.Work{Servers: 5, CPU: 4 * time.Millisecond, Commands: 400, Scripts: 200, Sent: 240}
	c := cell.Cell{Load: cell.Pass, Callers: 4, Processes: 2}

	r, err := merge(c, []worker.Ready{{Goroutines: 1}, {Goroutines: 2}}, []worker.Outcome{outcome, other}, work, 4*time.Second)
	require.NoError(t, err)
	assert.Equal(t, c, r.Cell)
	assert.Equal(t, int64(20), r.Ops)
	assert.InDelta(t, 10, r.Rate, 1e-9)
	assert.InDelta(t, 4, r.Switches, 1e-9)
	assert.Equal(t, int64(2), r.Violations)
	assert.Equal(t, "no", r.FirstFailure)
	assert.Equal(t, []int64{8, 12}, r.Timeline)
	assert.InDelta(t, 2, r.Allocs, 1e-9)
	assert.InDelta(t, 50, r.Client, 1e-9)
	assert.InDelta(t, 100, r.Servers, 1e-9)
	assert.InDelta(t, 10, r.Commands, 1e-9)
	assert.InDelta(t, 5, r.Scripts, 1e-9)
	assert.InDelta(t, 6, r.Sent, 1e-9)
	assert.InDelta(t, 12, r.SentRate, 1e-9)
	assert.InDelta(t, 0.4, r.ShareMin, 1e-9)
	assert.InDelta(t, 1.6, r.ShareMax, 1e-9)
	assert.Equal(t, int64(3), r.GoroutinesBefore)
	assert.Equal(t, int64(6), r.GoroutinesAfter)
	assert.Equal(t, int64(10), r.Acquire.Count)
}

func TestMergeOfNoOperations(t *testing.T) {
	r, err := merge(cell.Cell{Load: cell.Hold, Callers: 10}, []worker.Ready{{}}, []worker.Outcome{{Seconds: 1, Heap: 1000, Renewals: 50}},
		cluster.Work{Servers: 2, Sent: 20}, time.Second)
	require.NoError(t, err)
	assert.Zero(t, r.Allocs)
	assert.Nil(t, r.Acquire)
	assert.InDelta(t, 100, r.HeapPerLease, 1e-9)
	assert.InDelta(t, 0.2, r.CommandsPerRenewal, 1e-9)
}
