package quorumlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// A node that tells of a free slot is asked to put it back while the lease is valid, and not
// after that, though nothing has ended it yet.
func TestNothingIsPutBackPastTheEnd(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *Client, _ []*node.Memory) {
		lease, err := c.Semaphore("s", 1).With(LockOptions{Fixed: true}).Acquire(t.Context(), 1)
		require.NoError(t, err)
		asleep(c, true)
		h := lease.tenure.hold
		e := &entry{client: c, won: h, waiter: &waiter{lock: h.lock}}
		time.Sleep(DefaultTTL)
		require.True(t, e.fill(0))
		require.False(t, h.proposal.Renewed(), "a renewal was sent past the end")
		asleep(c, false)
	})
}
