package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A waiter may come between a batch and its repetition behind a lost script. Then the repetition does nothing and asks for the
// queues. The operations that have run keep their replies: only the one that has not runs again.
func TestRedisBatchThatAsksForQueuesWhenRepeated(t *testing.T) {
	var asked []string
	batches := 0
	n := open(t, redisproc.Serve(t, fake(func(args []string) (string, bool) {
		asked = append(asked, args[0]+" "+args[2]+" "+args[3])
		switch {
		case args[3] == "z" && args[0] == "EVALSHA":
			return "-NOSCRIPT No matching script.\r\n", true
		case args[3] == "z":
			return "*1\r\n:0\r\n", true
		case strings.Contains(args[4], "tombstone"): // the renewal alone
			return ":2\r\n", true
		}
		switch batches++; batches {
		case 1: // the renewal needs its tombstone, the release has run
			return "*2\r\n*1\r\n$4\r\nKEYS\r\n:1\r\n", true
		case 2: // a waiter has come
			return "*1\r\n$4\r\nKEYS\r\n", true
		default: // no third batch, as a small one comes again in single calls
			return "-ERR unexpected\r\n", true
		}
	})).Addr())
	replies := do(n, inspect("z"), renew("o1", "a"), release("o2", "b"))
	for _, r := range replies {
		require.NoError(t, r.Err, strings.Join(asked, ", "))
	}
	assert.Equal(t, wire.Healed, replies[1].Outcome)
	assert.Equal(t, wire.Released, replies[2].Outcome, strings.Join(asked, ", "))
}

// The keys of a queue end, whatever lies in the place of the marker.
func TestRedisQueueEndsBesideAMarkerOfAnotherType(t *testing.T) {
	undo := release("o1", "a")
	undo.Waiter = wire.Waiter{ID: "c:1", Ticket: 1, Keep: long}
	for _, enters := range []wire.Op{refreshes("c:1", "a"), undo} {
		server := start(t)
		n := open(t, server.Addr())
		want(t, wire.Granted, n, acquire("o1", "a"))
		command(t, server, "DEL", "quorumlock:node")
		command(t, server, "SET", "quorumlock:node", "x")
		do(n, enters)
		for _, key := range []string{"quorumlock:queue:{a}", "quorumlock:waiting:{a}"} {
			assert.Positive(t, number(t, command(t, server, "PTTL", key)), key)
		}
	}
}

// Batches trust the note that a node has no queues. Whatever keeps an entry keeps the note for as long.
func TestRedisNoteLastsAsLongAsTheQueue(t *testing.T) {
	undo := release("o1", "a")
	undo.Waiter = wire.Waiter{ID: "c:2", Ticket: 1, Keep: long}
	for _, enters := range []wire.Op{waits("c:2", 1, "a"), refreshes("c:2", "a"), undo} {
		server := start(t)
		n := open(t, server.Addr())
		want(t, wire.Granted, n, acquire("o1", "a"))
		brief := waits("c:2", 1, "a")
		brief.Waiter.Keep = 30 * time.Millisecond
		want(t, wire.Denied, n, brief)
		do(n, enters)
		const longer = `local time = redis.call('TIME')
			return redis.call('HGET', 'quorumlock:node', 'queues') - time[1] * 1000 - time[2] / 1000 - redis.call('PTTL', 'quorumlock:queue:{a}')`
		assert.GreaterOrEqual(t, number(t, command(t, server, "EVAL", longer, "0")), int64(-1), enters.Kind)
	}
}

// A node that has lost its marker alone still has its queues. A batch wakes their waiters.
func TestRedisBatchWakesOnANodeWithoutItsMarker(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	wantAll(t, n, []wire.Op{acquire("o1", "a"), acquire("o1", "b")}, wire.Granted, wire.Granted)
	want(t, wire.Denied, n, waits("c:1", 1, "a"))
	command(t, server, "DEL", "quorumlock:node")
	wantAll(t, n, []wire.Op{release("o1", "a"), release("o1", "b")}, wire.Released, wire.Released)
	select {
	case m := <-messages:
		assert.Equal(t, wire.Woken, m.Kind)
	case <-time.After(soon):
		t.Error("the waiter was not woken")
	}
}

// A small batch that was refused for queues comes again in single calls with all keys, so it takes two round trips whichever of
// its names have a queue: a waiter's chance to get its turn may be a single timeout. A larger one comes again with its queues,
// and then the names that have one.
func TestRedisSmallBatchIsRefusedOnce(t *testing.T) {
	for size, calls := range map[int]string{8: "9", 9: "3"} {
		server := start(t)
		n, fresh := open(t, server.Addr()), open(t, server.Addr())
		var acquires, releases []wire.Op
		for i := range size {
			acquires, releases = append(acquires, acquire("o1", fmt.Sprint(i))), append(releases, release("o1", fmt.Sprint(i)))
		}
		wantAll(t, n, acquires, slices.Repeat([]wire.Outcome{wire.Granted}, size)...)
		want(t, wire.Denied, n, waits("c:1", 1, "1"))
		require.NoError(t, fresh.Probe(t.Context()))
		command(t, server, "CONFIG", "RESETSTAT")
		wantAll(t, fresh, releases, slices.Repeat([]wire.Outcome{wire.Released}, size)...)
		assert.Contains(t, command(t, server, "INFO", "commandstats"), "cmdstat_evalsha:calls="+calls+",", size)
	}
}

// Renewals need no queue. So a batch of renewals is sent once, also to a node with queues.
func TestRedisRenewalsAreSentOnceBesideAQueue(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	renewals := []wire.Op{renew("o1", "a"), renew("o1", "b")}
	wantAll(t, n, []wire.Op{acquire("o1", "a"), acquire("o1", "b")}, wire.Granted, wire.Granted)
	wantAll(t, n, renewals, wire.Granted, wire.Granted)
	want(t, wire.Denied, n, waits("c:1", 1, "a"))
	another := open(t, server.Addr())
	require.NoError(t, another.Probe(t.Context()))
	command(t, server, "CONFIG", "RESETSTAT")
	for range 3 {
		wantAll(t, another, renewals, wire.Granted, wire.Granted)
	}
	assert.Contains(t, command(t, server, "INFO", "commandstats"), "cmdstat_evalsha:calls=3,")
}
