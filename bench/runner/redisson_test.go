package runner

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/redisson"
)

// TestRedissonIsMeasured: workers in Java follow the same protocol as those in Go, and share the witness.
func TestRedissonIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs Java and Maven: make check")
	}
	if err := redisson.Available(); err != nil && os.Getenv("QUORUMLOCK_REDISSON") != "required" {
		fmt.Fprintf(os.Stderr, "%s is skipped: %v\n", t.Name(), err)
		t.Skip(err)
	}
	base := cell.Cell{
		Peer: "redisson-redlock", Callers: 4, Processes: 1, Nodes: 3,
		Duration: time.Second, Settle: 200 * time.Millisecond, TTL: 10 * time.Second,
	}
	measured := func(load cell.Load, change func(*cell.Cell)) cell.Result {
		c := base
		c.Load = load
		change(&c)
		r := measure(t.Context(), Options{}, c)
		require.Empty(t, r.Error)
		assert.Zero(t, r.Failures, r.FirstFailure)
		assert.Zero(t, r.Violations)
		return r
	}

	r := measured(cell.Cycle, func(c *cell.Cell) { c.Peer = "redisson-multilock" })
	assert.Positive(t, r.Ops)
	require.NotNil(t, r.Acquire)
	assert.InDelta(t, r.Ops, r.Acquire.Count, float64(base.Callers), "what began in the time may have ended behind it")
	assert.Positive(t, r.Acquire.P50)
	assert.LessOrEqual(t, r.Acquire.P50, r.Acquire.P99)
	assert.Positive(t, r.CPU)
	assert.GreaterOrEqual(t, r.Work.Scripts, 6*r.AllOps, "one for the acquire and one for the release, on each node")

	r = measured(cell.Pass, func(c *cell.Cell) { c.Processes = 2 })
	assert.Positive(t, r.Ops)
	assert.Positive(t, r.Switches)
	assert.NotNil(t, r.Delay)

	measured(cell.Wait, func(c *cell.Cell) { c.Nodes = 1 })
}
