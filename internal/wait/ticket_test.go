package wait

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/node"
)

// A late denial of an earlier attempt says nothing about a node that has granted since. That node
// has no holder whose release it could report.
func TestLateDenialDoesNotReplaceLaterGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, 3)
		qs := newQueues(e)
		w := qs.newWaiter(specOf(3, "a"), nil)
		w.takeTicket()
		ticket := w.ticket
		qs.router.onDenied(ticket)
		synctest.Wait()
		_, settled := qs.Subscriptions().Listening()
		require.True(t, settled)
		now := e.Clock.Now()
		for range 2 { // Each iteration is one attempt.
			ticket.Begin(now)
			for i := range 3 {
				ticket.Stamp(&node.Op{}, i)
			}
		}
		denied := &node.Reply{Outcome: node.Denied, Holder: node.Holder{Owner: "o", TTL: time.Second}, Rank: 0}
		ticket.Voted(1, now, denied)
		require.False(t, ticket.holderIsCovered(), "a majority may hold the lock without node 2")
		ticket.Voted(2, now, denied)
		require.True(t, ticket.holderIsCovered(), "node 2 or 3 will tell when the holder releases")
		ticket.Voted(1, now, &node.Reply{Outcome: node.Granted})
		require.False(t, ticket.holderIsCovered())
		_, err := w.cancel(lease.ErrClosed)
		require.ErrorIs(t, err, lease.ErrClosed)
		qs.Close()
		e.Close()
		e.Nodes.Close()
	})
}
