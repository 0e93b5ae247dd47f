package quorumlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestRealCommandsAreCounted: an operation costs one script on each node, also with
// several names. Figures like these do not depend on the machine.
func TestRealCommandsAreCounted(t *testing.T) {
	c := startCluster(t, 5)
	client := c.client()
	for what, lock := range map[string]*quorumlock.Lock{
		"one name":  client.RedLock("a"),
		"ten names": client.MultiLock("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"),
	} {
		t.Run(what, func(t *testing.T) {
			require.NoError(t, acquire(t, lock).Release(t.Context())) // the servers know the scripts now
			c.noKeys()

			var lease *quorumlock.Lease
			c.runsOnce("acquire", func() { lease = acquire(t, lock) })
			c.runsOnce("extend", func() { require.NoError(t, lease.Extend(t.Context())) })
			c.runsOnce("release", func() { require.NoError(t, lease.Release(t.Context())) })
			c.noKeys()
		})
	}
}

// runsOnce requires that an operation is one script on each node.
func (c *cluster) runsOnce(what string, operate func()) {
	c.t.Helper()
	before := make([]int, len(c.servers))
	for i := range c.servers {
		before[i] = c.calls(i)
	}
	operate()
	for i := range c.servers {
		ran := func() int { return c.calls(i) - before[i] }
		eventually(c.t, soon, func() bool { return ran() > 0 }, "%s reaches node %d", what, i)
		require.Equal(c.t, 1, ran(), "%s on node %d", what, i)
	}
}
