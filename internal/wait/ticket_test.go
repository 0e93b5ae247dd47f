package wait

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// A late denial of an earlier attempt says nothing about a node that has granted since. That node
// has no holder whose release it could report.
func TestLateDenialDoesNotReplaceLaterGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		qs, e := newQueues(t, 3)
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
				ticket.Stamp(&wire.Op{}, i)
			}
		}
		denied := &wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Owner: "o", TTL: time.Second}, Rank: 0}
		ticket.Voted(1, now, denied)
		require.False(t, ticket.holderIsCovered(), "a majority may hold the lock without node 2")
		ticket.Voted(2, now, denied)
		require.True(t, ticket.holderIsCovered(), "node 2 or 3 will tell when the holder releases")
		ticket.Voted(1, now, &wire.Reply{Outcome: wire.Granted})
		require.False(t, ticket.holderIsCovered())
		_, err := w.cancel(lease.ErrClosed)
		require.ErrorIs(t, err, lease.ErrClosed)
		qs.Close()
		e.Close()
		e.Nodes.Close()
	})
}

// deniedAt makes an attempt of the ticket that three nodes deny, with these ranks.
func deniedAt(t *ticket, now time.Duration, ranks [3]int) {
	t.Begin(now)
	for i, rank := range ranks {
		t.Stamp(&wire.Op{}, i)
		t.Voted(i, now, &wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Owner: "o", TTL: time.Hour}, Rank: rank})
	}
}

// withTicket calls test with the ticket of a waiter, whose subscriptions are open.
func withTicket(t *testing.T, test func(t *testing.T, ticket *ticket, now time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		qs, e := newQueues(t, 3)
		w := qs.newWaiter(specOf(2, "a"), nil)
		w.takeTicket()
		qs.router.onDenied(w.ticket)
		synctest.Wait()
		defer func() {
			_, _ = w.cancel(lease.ErrClosed)
			qs.Close()
			e.Close()
			e.Nodes.Close()
		}()
		test(t, w.ticket, e.Clock.Now())
	})
}

// Nodes that have lost or missed entries know too few waiters, and others know waiters that are gone. The least rank
// is the safe one.
func TestLeastRankOfAllNodesCounts(t *testing.T) {
	withTicket(t, func(t *testing.T, ticket *ticket, now time.Duration) {
		for _, ranks := range [][3]int{{2, 40, 40}, {40, 2, 40}, {40, 40, 2}} {
			deniedAt(ticket, now, [3]int{40, 40, 40})
			require.Greater(t, ticket.beatInterval(), BeatInterval)
			deniedAt(ticket, now, ranks)
			require.Equal(t, BeatInterval, ticket.beatInterval())
		}
	})
}

// Redisson announces a release to all waiters. Those far back leave it to the others, and look again at their next
// poll.
func TestWaiterFarBackIgnoresAnnouncements(t *testing.T) {
	withTicket(t, func(t *testing.T, ticket *ticket, now time.Duration) {
		for rank, hurries := range map[int]bool{0: true, 1: true, nearHead: true, nearHead + 1: false, 40: false} {
			deniedAt(ticket, now, [3]int{rank, rank, rank})
			deniedAt(ticket, now, [3]int{rank, rank, rank})
			ticket.onWoken(0, now) // ends the backoff
			deniedAt(ticket, now, [3]int{rank, rank, rank})
			before := ticket.nextAttempt()
			for i := range 3 {
				ticket.onAnnounced(i, []string{"a"}, now)
			}
			require.Equal(t, hurries, ticket.nextAttempt() < before, "rank %d", rank)
		}
	})
}

// A node whose messages do not arrive does not tell the waiter of a release. So the waiter polls if too few others do.
func TestLostSubscriptionsCoverNoHolder(t *testing.T) {
	withTicket(t, func(t *testing.T, ticket *ticket, now time.Duration) {
		deniedAt(ticket, now, [3]int{0, 0, 0})
		require.True(t, ticket.holderIsCovered())
		ticket.onLost(0)
		require.True(t, ticket.holderIsCovered(), "a holder has two nodes, so node 2 or 3")
		ticket.onLost(1)
		require.False(t, ticket.holderIsCovered())
	})
}

// Only messages that make the next attempt due sooner wake the goroutine of the waiter.
func TestOnlyUsefulMessagesWakeTheWaiter(t *testing.T) {
	const grace = time.Millisecond
	signalled := func(ticket *ticket) bool {
		select {
		case <-ticket.signals:
			return true
		default:
			return false
		}
	}
	for _, tc := range []struct {
		name string
		tell func(ticket *ticket, i int, now time.Duration)
		// useful says which of three messages, from one node each, wakes the waiter for a quorum of two.
		useful [3]bool
		due    time.Duration
	}{
		{"woken", (*ticket).onWoken, [3]bool{true, true, false}, 0},
		{"standby", (*ticket).onStandby, [3]bool{false, true, false}, 30 * time.Millisecond},
		{"returned", func(t *ticket, i int, now time.Duration) { t.Freed(i, now, true) }, [3]bool{false, true, false}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withTicket(t, func(t *testing.T, ticket *ticket, now time.Duration) {
				signalled(ticket)
				deniedAt(ticket, now, [3]int{})
				ticket.onWoken(0, now)
				require.False(t, signalled(ticket), "the waiter looks again after its attempt")
				deniedAt(ticket, now, [3]int{})
				require.Greater(t, ticket.nextAttempt(), now+grace)
				for i, useful := range tc.useful {
					tc.tell(ticket, i, now)
					require.Equal(t, useful, signalled(ticket), "message %d", i)
				}
				require.Equal(t, now+tc.due, ticket.nextAttempt())
			})
		})
	}
}

// A waiter leaves while a beat is about to tell a node of it. So the node makes its entry again, and the waiter leaves once more.
func TestBeatBehindALeaverKeepsNoEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var node0 node.Node
		qs, e := newQueues(t, 1, func(n node.Node) node.Node { node0 = n; return n })
		holder, err := qs.Acquire(t.Context(), specOf(1, "a", "b"), nil)
		require.NoError(t, err)
		leaver, other := qs.newWaiter(specOf(1, "a"), nil), qs.newWaiter(specOf(1, "b"), nil)
		for _, w := range []*waiter{leaver, other} {
			w.takeTicket()
			qs.router.onDenied(w.ticket)
			synctest.Wait() // the node's messages arrive
			w.ticket.Begin(e.Clock.Now())
			w.ticket.dueAt = time.Hour
		}
		h, l := &qs.heart, leaver.ticket
		h.untold[0] = []*ticket{l, other.ticket}
		// The beat collects the waiters one by one, and then sends the operation.
		other.ticket.mu.Lock()
		go func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.tellLocked(0)
		}()
		for collected := false; !collected; runtime.Gosched() {
			l.mu.Lock()
			collected = l.asked == 1
			l.mu.Unlock()
		}
		leaver.finish(nil)
		other.ticket.mu.Unlock()
		synctest.Wait()
		waiters := func(name string) int {
			last := wire.Waiting{Waiter: wire.Waiter{ID: "me:last", Ticket: 1 << 52}, Names: []string{name}}
			replies := make([]wire.Reply, 1)
			node0.Do(t.Context(), []wire.Op{{Kind: wire.Refresh, TTL: time.Second, Names: last.Names, Waiting: []wire.Waiting{last}}}, replies)
			return replies[0].Standings[0].Rank
		}
		require.Zero(t, waiters("a"))
		require.Equal(t, 1, waiters("b"), "the beat has run")
		other.finish(nil)
		synctest.Wait()
		require.Zero(t, waiters("b"), "it leaves the queue that only the beat has entered it into")
		require.NoError(t, holder.Lease.Err())
		qs.Close()
		e.Close()
		e.Nodes.Close()
	})
}

// A waiter leaves while its attempt still waits for a node, which is then down. It leaves the queue that an earlier attempt
// has entered it into.
func TestUnsentAttemptOfALeaverKeepsNoEntry(t *testing.T) {
	withTicket(t, func(t *testing.T, ticket *ticket, now time.Duration) {
		deniedAt(ticket, now, [3]int{})
		ticket.Begin(now)
		ticket.Stamp(&wire.Op{}, 0)
		ticket.leaveAll()
		require.EqualValues(t, 1, ticket.queuedAt, "the node has not answered")
		ticket.Voted(0, now, &wire.Reply{Err: node.ErrDown, Unsent: true})
		require.Zero(t, ticket.queuedAt)
	})
}
