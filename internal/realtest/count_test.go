package realtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestRealCommandsAreCounted requires one script on each node per operation, also for several
// names. These counts do not depend on the machine.
func TestRealCommandsAreCounted(t *testing.T) {
	c := startCluster(t, 5)
	client := c.client(undisturbed)
	ran := 0
	// each runs an operation and requires the given number of scripts on every node.
	each := func(scripts int, what string, operate func()) {
		operate()
		ran += scripts
		for i := range c.servers {
			eventually(t, soon, func() bool { return c.calls(i) >= ran }, "node %[2]d ran the script for %[1]s", what, i)
			require.Equal(t, ran, c.calls(i), "scripts on node %d up to %s", i, what)
		}
	}
	cycle := func(scripts int, lock *quorumlock.Lock) {
		var lease *quorumlock.Lease
		each(scripts, "acquire", func() { lease = acquire(t, lock) })
		each(scripts, "extend", func() { require.NoError(t, lease.Extend(t.Context())) })
		each(scripts, "release", func() { require.NoError(t, lease.Release(t.Context())) })
		c.noKeys()
	}
	cycle(2, client.RedLock("a")) // A server must load each script once.
	cycle(1, client.RedLock("a"))
	cycle(1, client.MultiLock("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"))
}
