package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
)

func TestMergedResult(t *testing.T) {
	h := cell.NewHistogram()
	for range 5 {
		h.Record(time.Millisecond)
	}
	encoded, err := h.Encode()
	require.NoError(t, err)
	outcome := cell.Outcome{
		Seconds: 2, Ops: 10, AllOps: 20, Violations: 1, Mallocs: 40, CPU: 0.001, Goroutines: 3, GaveUp: 5,
		Grants: []int64{5, 5}, AcquireTimes: encoded, ReleaseTimes: encoded, DelayTimes: encoded,
	}
	other := outcome
	other.Grants, other.FirstFailure, other.Failures, other.GaveUp = []int64{2, 8}, "no", 1, 7
	c := cell.Cell{Load: cell.Pass, Callers: 4, Processes: 2}

	r, err := merge(c, []cell.Outcome{{Goroutines: 1}, {Goroutines: 2}}, []cell.Outcome{outcome, other})
	require.NoError(t, err)
	assert.Equal(t, c, r.Cell)
	assert.Equal(t, int64(20), r.Ops)
	assert.Equal(t, int64(40), r.AllOps)
	assert.InDelta(t, 2, r.Seconds, 1e-9)
	assert.Equal(t, uint64(80), r.Mallocs)
	assert.InDelta(t, 0.002, r.CPU, 1e-9)
	assert.Equal(t, []int64{5, 5, 2, 8}, r.Grants)
	assert.Equal(t, int64(2), r.Violations)
	assert.Equal(t, int64(1), r.Failures)
	assert.Equal(t, "no", r.FirstFailure)
	assert.Equal(t, int64(12), r.GaveUp)
	assert.Equal(t, int64(3), r.GoroutinesBefore)
	assert.Equal(t, int64(6), r.Goroutines)
	assert.Equal(t, int64(10), r.Acquire.Count)
}

func TestMergeOfNoOperations(t *testing.T) {
	r, err := merge(cell.Cell{Load: cell.Hold, Callers: 10}, []cell.Outcome{{}}, []cell.Outcome{{Seconds: 1, Heap: 1000, Renewals: 50}})
	require.NoError(t, err)
	assert.Equal(t, int64(1000), r.Heap)
	assert.Equal(t, int64(50), r.Renewals)
	assert.Nil(t, r.Acquire)
}
