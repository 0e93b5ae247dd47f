package quorumlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// A denial that comes late, of an attempt before, says nothing about a node that has granted since:
// nobody has the lock there whose release it would tell of.
func TestALateDenialCoversNothingWhereANodeHasGranted(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		l := c.MultiLock("a")
		w := newWaiter(l)
		w.queueUp()
		e := w.entry
		c.router.waits(e)
		for _, settled := c.router.subscriptions.Listening(); !settled; _, settled = c.router.subscriptions.Listening() {
			time.Sleep(time.Millisecond)
		}
		now := c.clock.Now()
		for range 2 { // attempts
			e.begin(now)
			for i := range 3 {
				e.sign(&node.Op{}, i)
			}
		}
		denied := &node.Reply{Outcome: node.Denied, Holder: node.Holder{Owner: "o", TTL: time.Second}, Rank: 0}
		e.voted(1, now, denied)
		require.True(t, e.covered(), "node 2 will tell when the holder releases")
		e.voted(1, now, &node.Reply{Outcome: node.Granted})
		require.False(t, e.covered())
		_, err := w.resign(ErrClosed)
		require.ErrorIs(t, err, ErrClosed)
	})
}
