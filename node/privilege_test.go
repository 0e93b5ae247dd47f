package node_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func onBoth(t *testing.T, test func(t *testing.T, n node.Node)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := opened(t, memory.New("m", clock.Process()))
			defer func() { _ = m.Close() }()
			test(t, m)
		})
	})
	t.Run("redis", func(t *testing.T) { test(t, open(t, start(t).Addr())) })
}

func givesBack(id string, ticket int64, names ...string) node.Op {
	op := release("o of "+id, names...)
	op.Waiter = node.Waiter{ID: id, Ticket: ticket, Keep: long}
	return op
}

// The second proposal of an owner finds the lock held by that owner. It gets no new privilege.
func TestRaisedProposalGetsNoNewWakePrivilege(t *testing.T) {
	onBoth(t, func(t *testing.T, n node.Node) {
		_, _ = listen(t, n, "c1"), listen(t, n, "c2")
		want(t, node.Granted, n, acquire("o1", "a"))
		want(t, node.Denied, n, fairly("c1:1", 1, "a"))
		want(t, node.Denied, n, fairly("c2:1", 2, "a"))
		want(t, node.Released, n, release("o1", "a"))
		for range 3 {
			want(t, node.Granted, n, fairly("c1:1", 1, "a"))
			time.Sleep(60 * time.Millisecond)
			want(t, node.Granted, n, fairly("c1:1", 1, "a")) // a larger token
			want(t, node.Released, n, givesBack("c1:1", 1, "a"))
		}
		want(t, node.Granted, n, fairly("c2:1", 2, "a"))
	})
}

// A waiter that returns its attempt wakes one or a few others. The number of earlier failed
// attempts does not matter.
func TestReturnedGrantIsAnnouncedToFewWaiters(t *testing.T) {
	onBoth(t, func(t *testing.T, n node.Node) {
		const crowd = 50
		messages := listen(t, n, "c")
		id := func(i int) string { return fmt.Sprintf("c:%03d", i) }
		want(t, node.Granted, n, acquire("o1", "a"))
		for i := range crowd {
			want(t, node.Denied, n, fairly(id(i), int64(i), "a"))
		}
		want(t, node.Released, n, release("o1", "a"))
		time.Sleep(60 * time.Millisecond)
		for i := range crowd { // each comes, has the node, gives it back, and no other node can be had
			do(n, fairly(id(i), int64(i), "a"))
			do(n, givesBack(id(i), int64(i), "a"))
		}
		time.Sleep(60 * time.Millisecond)
		for i := range crowd {
			do(n, fairly(id(i), int64(i), "a"))
			do(n, givesBack(id(i), int64(i), "a"))
		}
		time.Sleep(60 * time.Millisecond)
		for len(messages) > 0 {
			<-messages
		}
		want(t, node.Granted, n, fairly(id(crowd-1), crowd-1, "a"))
		want(t, node.Released, n, givesBack(id(crowd-1), crowd-1, "a"))
		time.Sleep(60 * time.Millisecond)
		t.Log("messages", len(messages))
		require.LessOrEqual(t, len(messages), 3)
	})
}
