package quorumlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// A late denial of an earlier attempt says nothing about a node that has granted since. That node
// has no holder whose release it could report.
func TestALateDenialCoversNothingWhereANodeHasGranted(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		l := c.MultiLock("a")
		w := newWaiter(l)
		w.takeTicket()
		e := w.ticket
		c.messages.onDenied(e)
		for _, settled := c.messages.subscriptions.Listening(); !settled; _, settled = c.messages.subscriptions.Listening() {
			time.Sleep(time.Millisecond)
		}
		now := c.clock.Now()
		for range 2 { // Each iteration is one attempt.
			e.beginAttempt(now)
			for i := range 3 {
				e.stamp(&node.Op{}, i)
			}
		}
		denied := &node.Reply{Outcome: node.Denied, Holder: node.Holder{Owner: "o", TTL: time.Second}, Rank: 0}
		e.voted(1, now, denied)
		require.True(t, e.holderIsCovered(), "node 2 will tell when the holder releases")
		e.voted(1, now, &node.Reply{Outcome: node.Granted})
		require.False(t, e.holderIsCovered())
		_, err := w.cancel(ErrClosed)
		require.ErrorIs(t, err, ErrClosed)
	})
}

// A node reports the slot of a valid lease as free, so the client renews the slot there. The client
// does not renew past the end, even if no tick has ended the lease yet.
func TestNothingIsPutBackPastTheEnd(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *Client, _ []*node.Memory) {
		lease, err := c.Semaphore("s", 1).With(LockOptions{Fixed: true}).Acquire(t.Context(), 1)
		require.NoError(t, err)
		asleep(c, true)
		h := lease.lease.grant
		e := &ticket{client: c, grant: h, waiter: &waiter{lock: h.lock}}
		time.Sleep(DefaultTTL)
		require.True(t, e.returnHintedSlot(0))
		require.False(t, h.proposal.Renewed(), "a renewal was sent past the end")
		asleep(c, false)
	})
}
