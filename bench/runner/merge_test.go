package runner

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
)

func TestMergedResult(t *testing.T) {
	h := cell.NewHistogram()
	h.Record(0, time.Millisecond, 5)
	encoded, err := h.Encode()
	require.NoError(t, err)
	outcome := cell.Outcome{
		Seconds: 2, Ops: 10, AllOps: 20, Violations: 1, Switches: 4, Mallocs: 40, CPU: 0.001, Goroutines: 3, Pause: 5,
		Timeline: []int64{4, 6}, Grants: []int64{5, 5}, AcquireTimes: encoded, ReleaseTimes: encoded, DelayTimes: encoded,
	}
	other := outcome
	other.Grants, other.FirstFailure, other.Failures, other.Pause = []int64{2, 8}, "no", 1, 7
	other.Timeline = []int64{4, 6, 1}
	c := cell.Cell{Load: cell.Pass, Callers: 4, Processes: 2}

	r, err := merge(c, []cell.Outcome{{Goroutines: 1}, {Goroutines: 2}}, []cell.Outcome{outcome, other})
	require.NoError(t, err)
	r.Work = cluster.Work{Servers: 5, CPU: 4 * time.Millisecond, Commands: 400, Scripts: 200, Sent: 240}
	r.Passed = 4 * time.Second
	assert.Equal(t, c, r.Cell)
	assert.Equal(t, int64(20), r.Ops)
	assert.InDelta(t, 10, r.Rate(), 1e-9)
	assert.InDelta(t, 4, r.SwitchRate(), 1e-9)
	assert.Equal(t, int64(2), r.Violations)
	assert.Equal(t, int64(1), r.Failures)
	assert.Equal(t, "no", r.FirstFailure)
	assert.Equal(t, int64(7), r.Pause)
	assert.Equal(t, []int64{8, 12, 1}, r.Timeline)
	assert.InDelta(t, 2, r.Allocs(), 1e-9)
	assert.InDelta(t, 50, r.Client(), 1e-9)
	assert.InDelta(t, 100, r.Servers(), 1e-9)
	assert.InDelta(t, 10, r.Commands(), 1e-9)
	assert.InDelta(t, 5, r.Scripts(), 1e-9)
	assert.InDelta(t, 6, r.Sent(), 1e-9)
	assert.InDelta(t, 12, r.SentRate(), 1e-9)
	assert.InDelta(t, 10, r.ScriptRate(), 1e-9)
	assert.InDelta(t, 20, r.CommandRate(), 1e-9)
	assert.InDelta(t, 0.4, r.ShareMin(), 1e-9)
	assert.InDelta(t, 1.6, r.ShareMax(), 1e-9)
	assert.Equal(t, int64(3), r.GoroutinesBefore)
	assert.Equal(t, int64(6), r.Goroutines)
	assert.Equal(t, int64(10), r.Acquire.Count)
}

func TestMergeOfNoOperations(t *testing.T) {
	r, err := merge(cell.Cell{Load: cell.Hold, Callers: 10}, []cell.Outcome{{}}, []cell.Outcome{{Seconds: 1, Heap: 1000, Renewals: 50}})
	require.NoError(t, err)
	r.Work = cluster.Work{Servers: 2, Sent: 20}
	assert.True(t, math.IsNaN(r.Allocs()), "it was not measured")
	assert.True(t, math.IsNaN(r.ShareMin()))
	assert.Nil(t, r.Acquire)
	assert.InDelta(t, 100, r.HeapPerLease(), 1e-9)
	assert.InDelta(t, 0.2, r.CommandsPerRenewal(), 1e-9)
}
