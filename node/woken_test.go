package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// turn is longer than the time for which a name is reserved for a woken waiter.
const turn = 60 * time.Millisecond

const (
	queueOfA   = "quorumlock:queue:{a}"
	waitingOfA = "quorumlock:waiting:{a}"
)

// wokenOfA returns the waiters of a that were woken and have not come since.
func wokenOfA(t *testing.T, server *redisproc.Server) (waiters string) {
	t.Helper()
	for field := range strings.Lines(command(t, server, "HKEYS", waitingOfA)) {
		if waiter, ok := strings.CutPrefix(strings.TrimSpace(field), "+"); ok && waiter != "" {
			waiters += waiter + " "
		}
	}
	return strings.TrimSpace(waiters)
}

// noneExpected requires an empty list of woken waiters where the queue is empty.
func noneExpected(t *testing.T, server *redisproc.Server) {
	t.Helper()
	require.Empty(t, command(t, server, "ZRANGE", queueOfA, "0", "-1"))
	require.Empty(t, command(t, server, "HKEYS", waitingOfA))
}

// A node that is out of memory adds no entry for a waiter. It may still grant the lock after a
// first write. It must not list the waiter as woken, since the list would outlive the queue.
func TestRedisListsNoWokenWaiterWithoutAnEntry(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Denied, n, waits("c:1", 1, "a"))
	want(t, wire.Denied, n, waits("c:2", 2, "a"))
	want(t, wire.Released, n, release("o1", "a"))
	require.Equal(t, "c:1", next(t, messages).Waiter)
	pass(t, server, turn)
	// This waiter has no inbox. The next attempt removes it, which is a write.
	want(t, wire.Denied, n, fairly("gone:3", 3, "a"))
	pass(t, server, turn)

	server.Config("maxmemory", "1")
	want(t, wire.Granted, n, fairly("c:4", 4, "a"))
	server.Config("maxmemory", "0")
	require.Equal(t, "c:1\nc:2", command(t, server, "ZRANGE", queueOfA, "0", "-1"))
	require.Equal(t, "c:1 c:2", wokenOfA(t, server))
	want(t, wire.Released, n, leaves("c:1", "a"))
	want(t, wire.Released, n, leaves("c:2", "a"))
	noneExpected(t, server)
	want(t, wire.Released, n, releasesFor("c:4", "o of c:4", "a"))
	noneExpected(t, server)
}

// A waiter with a short lifetime must not shorten the queue's TTL. The other waiters would stay
// listed as woken after the queue's end.
func TestRedisWokenWaitersExpireWithTheQueue(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	short := func(op wire.Op) wire.Op {
		op.Waiter.Keep = long / 10
		return op
	}
	outlives := func() bool {
		queue, woken := number(t, command(t, server, "PTTL", queueOfA)), number(t, command(t, server, "PTTL", waitingOfA))
		return woken > queue+1000 // a second has passed between the two if the machine is very busy
	}
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Denied, n, short(waits("c:1@500", 1, "a")))
	want(t, wire.Denied, n, short(waits("c:2@500", 2, "a")))
	want(t, wire.Denied, n, waits("c:3", 3, "a"))
	want(t, wire.Released, n, release("o1", "a"))
	require.Equal(t, "c:1@500", next(t, messages).Waiter)
	want(t, wire.Released, n, leaves("c:3", "a")) // the one with the long life
	require.Equal(t, "c:1@500", wokenOfA(t, server))
	do(n, short(fairly("c:2@500", 2, "a"))) // it is the turn of the other, mostly
	require.False(t, outlives())

	// The other waiter takes the lock and returns it for another try.
	want(t, wire.Granted, n, short(fairly("c:1@500", 1, "a")))
	again := releasesFor("c:1@500", "o of c:1@500", "a")
	again.Waiter.Ticket = 1
	want(t, wire.Released, n, short(again))
	require.False(t, outlives())
}

// A release for a waiter removes it from the woken waiters, even if its queue is gone.
func TestRedisReleaseRemovesTheWokenWaiter(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for _, reads := range []bool{false, true} {
		op := acquire("o1", "a")
		op.Reads = reads
		want(t, wire.Granted, n, op)
		command(t, server, "HSET", waitingOfA, "+c:1", "1")
		op = releasesFor("c:1", "o1", "a")
		op.Reads = reads
		want(t, wire.Released, n, op)
		noneExpected(t, server)
	}
}
