package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// waits returns an acquisition on behalf of a waiter.
func waits(id string, ticket int64, names ...string) wire.Op {
	op := acquire("o of "+id, names...)
	op.Waiter = wire.Waiter{ID: id, Ticket: ticket, Keep: long}
	return op
}

func fairly(id string, ticket int64, names ...string) wire.Op {
	op := waits(id, ticket, names...)
	op.Fair = true
	return op
}

// releasesFor returns a release of names that a waiter acquired. The waiter leaves the queue with
// it.
func releasesFor(id, owner string, names ...string) wire.Op {
	op := release(owner, names...)
	op.Waiter = wire.Waiter{ID: id}
	return op
}

func leaves(id string, names ...string) wire.Op {
	return wire.Op{Kind: wire.Leave, Names: names, Waiter: wire.Waiter{ID: id}}
}

// refreshes asks how a waiter stands.
func refreshes(id string, names ...string) wire.Op {
	return wire.Op{
		Kind: wire.Refresh, Names: names, TTL: time.Minute, Waiting: []wire.Waiting{{Waiter: wire.Waiter{ID: id, Ticket: 1}, Names: names}},
	}
}

// listen opens an inbox and returns a channel of its messages.
func listen(t testing.TB, n node.Node, client string) <-chan wire.Message {
	t.Helper()
	messages := make(chan wire.Message, 10_000)
	inbox, err := inbox.Listen(context.Background(), n, client, false, func(m wire.Message) { messages <- m })
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	return messages
}

// next returns the next message.
func next(t testing.TB, messages <-chan wire.Message) wire.Message {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-messages:
		return m
	case <-timer.C:
		require.Fail(t, "waited in vain for a message")
		return wire.Message{}
	}
}

var queueKeys = []string{queueOfA, waitingOfA}

// A key of another type at the queue's place does not block a release. Waiting fails there before
// it changes anything.
func TestKeysOfAnotherTypeAtAQueue(t *testing.T) {
	server := redisproc.Start(t)
	for _, key := range queueKeys {
		t.Run("memory "+key, func(t *testing.T) {
			m := opened(t, memory.New("m", clock.Process()))
			t.Cleanup(func() { _ = m.Close() })
			m.Plant(key)
			hostileQueue(t, m)
		})
		another := []string{"HSET", key, "not", "a queue"}
		if key == waitingOfA {
			another = []string{"ZADD", key, "1", "not a queue"}
		}
		for kind, plant := range map[string][]string{
			"string": {"SET", key, "not a queue"}, "list": {"LPUSH", key, "not a queue"}, another[0]: another,
		} {
			t.Run(kind+" "+key, func(t *testing.T) {
				command(t, server, "FLUSHALL")
				n := opened(t, open(t, server.Addr()))
				command(t, server, plant...)
				hostileQueue(t, n)
			})
		}
	}
}

// hostileQueue tests a node with a key of another type in the queue of a.
func hostileQueue(t *testing.T, n node.Node) {
	t.Helper()
	messages := listen(t, n, "c")
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Denied, n, acquire("o2", "a"))
	for _, op := range []wire.Op{
		waits("c:1", 1, "a"), waits("c:1", 1, "b", "a"), waits("c:1", 1, "a", "b"),
		fairly("c:1", 1, "a"), fairly("c:1", 1, "b", "a"), fairly("c:1", 1, "a", "b"),
	} {
		err := failure(t, node.ErrWrongType, n, op)
		assert.True(t, err.Permanent())
		want(t, wire.Absent, n, leaves("c:1", "b"))
	}
	want(t, wire.Granted, n, acquire("o1", "d"))
	want(t, wire.Denied, n, waits("c:1", 1, "b", "d"))
	want(t, wire.Released, n, leaves("c:1", "a", "b"))
	want(t, wire.Denied, n, waits("c:1", 1, "d"))
	want(t, wire.Absent, n, leaves("c:2", "a", "d"))
	want(t, wire.Released, n, release("o1", "a", "d"))
	assert.Equal(t, "d", next(t, messages).Name)
	want(t, wire.Granted, n, acquire("o1", "a", "d"))
	want(t, wire.Released, n, force("a", "d"))
	assert.Equal(t, "d", next(t, messages).Name)
	want(t, wire.Absent, n, release("o1", "d", "a"))
	assert.Equal(t, "d", next(t, messages).Name)
}

// An acquisition that cannot remove a waiter's entry fails before it takes the lock.
func TestRedisGrantWithABrokenQueue(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for _, key := range queueKeys {
		want(t, wire.Granted, n, acquire("o1", "a"))
		want(t, wire.Denied, n, waits("c:1", 1, "a", "b"))
		want(t, wire.Released, n, release("o1", "a"))
		want(t, wire.Granted, n, acquire("o1", "d"))
		want(t, wire.Denied, n, waits("c:1", 1, "d", "a"))
		command(t, server, "DEL", key)
		command(t, server, "SET", key, "not a queue")
		for _, op := range []wire.Op{waits("c:1", 1, "a", "b"), waits("c:1", 1, "b", "a"), fairly("c:1", 1, "b", "a")} {
			fails(t, node.ErrWrongType, n, op)
			assert.Equal(t, []string{"d"}, held(server))
		}
		command(t, server, "FLUSHALL")
		admit(t, server)
	}
}

// transient requires a TTL on all keys except the marker and the fences. The locks and waiters of
// the tests bound this TTL.
func transient(t *testing.T, server *redisproc.Server) {
	t.Helper()
	for _, key := range server.Keys() {
		if key == "quorumlock:node" || key == "quorumlock:fences" {
			continue
		}
		left := number(t, command(t, server, "PTTL", key))
		assert.Positive(t, left, "%s lives for ever", key)
		assert.LessOrEqual(t, left, long.Milliseconds(), "%s outlives its use", key)
	}
}

// queueKeysOf lists the server's queue keys.
func queueKeysOf(server *redisproc.Server) (keys []string) {
	for _, key := range server.Keys() {
		for _, kind := range []string{"queue", "waiting", "writers"} {
			if strings.HasPrefix(key, "quorumlock:"+kind+":") {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Every queue key has a TTL no later than the longest deadline. All queue keys are gone once the
// last waiter has left.
func TestRedisQueueKeysGo(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	listen(t, n, "c")
	want(t, wire.Granted, n, acquire("o1", "a"))
	middle := waits("c:1", 1, "a", "b")
	middle.Waiter.Keep = long / 2
	want(t, wire.Denied, n, middle)
	transient(t, server)
	for _, key := range []string{"quorumlock:queue:{a}", "quorumlock:waiting:{a}", "quorumlock:queue:{b}", "quorumlock:waiting:{b}"} {
		left := number(t, command(t, server, "PTTL", key))
		assert.LessOrEqual(t, left, (long / 2).Milliseconds())
		assert.Greater(t, left, (long / 4).Milliseconds())
	}
	brief := waits("c:2", 2, "a", "b")
	brief.Waiter.Keep = time.Millisecond
	want(t, wire.Denied, n, brief)
	left := number(t, command(t, server, "PTTL", "quorumlock:queue:{a}"))
	assert.Greater(t, left, (long / 4).Milliseconds(), "the TTL of the queue covers the longest deadline")
	want(t, wire.Denied, n, waits("c:3", 3, "a", "b"))
	want(t, wire.Released, n, release("o1", "a", "b"))
	assert.Len(t, queueKeysOf(server), 4)
	transient(t, server)
	want(t, wire.Granted, n, waits("c:1", 1, "a", "b"))
	assert.Len(t, queueKeysOf(server), 4, "until it gives them back, it has its place")
	want(t, wire.Released, n, releasesFor("c:1", "o of c:1", "a", "b"))
	assert.Len(t, queueKeysOf(server), 4)
	want(t, wire.Released, n, leaves("c:3", "a", "b"))
	assert.Empty(t, queueKeysOf(server))

	want(t, wire.Granted, n, acquire("o1", "a"))
	fleeting := waits("c:4", 1, "a")
	fleeting.Waiter.Keep = 5 * time.Millisecond
	want(t, wire.Denied, n, fleeting)
	pass(t, server, 6*time.Millisecond)
	assert.Empty(t, queueKeysOf(server))
}

// A waiter without a lifetime gets no entry and leaves no key.
func TestRedisEntryWithoutALife(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "a"))
	for _, keep := range []time.Duration{0, -time.Second, time.Microsecond} {
		op := waits("c:1", 1, "a")
		op.Waiter.Keep = keep
		want(t, wire.Denied, n, op)
		assert.Empty(t, queueKeysOf(server))
	}
}

// A release succeeds even if the node may not wake the waiters, for example because of a user's
// missing rights. A repetition would not help.
func TestRedisReleaseWithoutTheRightToWake(t *testing.T) {
	server := start(t)
	waiter := open(t, server.Addr())
	for _, rules := range []string{
		"~* +@all resetchannels", "~* &* +@all -publish", "~* &* +@all -zrange", "~* &* +@all -zadd -zrem -zscore -zrange",
		"~* &* +@all -exists",
	} {
		n := asUser(t, server, rules)
		take := func() {
			want(t, wire.Granted, waiter, acquire("o1", "a", "b"))
			want(t, wire.Denied, waiter, waits("c:1", 1, "a"))
		}
		take()
		want(t, wire.Released, n, release("o1", "a", "b"))
		assert.Empty(t, held(server))
		want(t, wire.Absent, n, release("o1", "a", "b"))
		take()
		want(t, wire.Released, n, force("a", "b"))
		assert.Empty(t, held(server))
		want(t, wire.Absent, n, force("a", "b"))
		take()
		want(t, wire.Released, waiter, release("o1", "a", "b"))
		transient(t, server)
	}
}

// Leaving the queue fails only if the entry stays.
func TestRedisLeavesWithoutTheRight(t *testing.T) {
	server := start(t)
	waiter := open(t, server.Addr())
	for rules, right := range map[string]bool{
		"~* resetchannels +@all": true, "~* &* +@all -publish": true, "~* &* +@all -zrange": true, "~* &* +@all -zrem": false,
	} {
		n := asUser(t, server, rules)
		want(t, wire.Granted, waiter, acquire("o1", "a"))
		want(t, wire.Denied, waiter, waits("c:1", 1, "a", "b"))
		want(t, wire.Denied, waiter, waits("c:2", 2, "a", "b"))
		if right {
			want(t, wire.Released, n, leaves("c:1", "a", "b"))
			want(t, wire.Absent, n, leaves("c:1", "a", "b"))
		} else {
			fails(t, node.ErrAuth, n, leaves("c:1", "a", "b"))
		}
		command(t, server, "DEL", "a", queueOfA, waitingOfA)
	}
}

// A client that may not wake the waiters before it cannot take turns.
func TestRedisTurnWithoutTheRightToWake(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithACL("user u on >secret ~* +@all resetchannels"))
	n := opened(t, open(t, "redis://u:secret@"+server.Addr()))
	want(t, wire.Granted, n, acquire("o1", "b"))
	want(t, wire.Denied, n, waits("c:1", 1, "a", "b"))
	fails(t, node.ErrAuth, n, fairly("c:2", 2, "a"))
	assert.Equal(t, []string{"b"}, held(server))
	transient(t, server)
}

// A server that lacks some scripts runs some operations twice. The result of the first run counts.
func TestRedisWaitersWhenScriptsAreForgotten(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	for range 3 {
		command(t, server, "SCRIPT", "FLUSH")
		wantAll(t, n, []wire.Op{acquire("o1", "a"), waits("c:1", 1, "a"), release("o1", "a"), leaves("c:1", "a"), leaves("c:1", "a")},
			wire.Granted, wire.Denied, wire.Released, wire.Released, wire.Absent)
		assert.Equal(t, wire.Woken, next(t, messages).Kind)
	}
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Denied, n, waits("c:1", 1, "a"))
	command(t, server, "SCRIPT", "FLUSH")
	want(t, wire.Absent, n, leaves("c:9", "a"))
	wantAll(t, n, []wire.Op{inspect("b"), leaves("c:1", "a")}, wire.Inspected, wire.Released)
}

// The cost of a release hardly depends on the number of waiters.
func TestRedisReleaseWithManyWaiters(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	listen(t, n, "c")
	calls := func(waiters int) int64 {
		ops := []wire.Op{acquire("o1", "a")}
		for i := range waiters {
			ops = append(ops, waits(fmt.Sprint("c:", i), int64(i), "a"))
		}
		for _, r := range do(n, ops...) {
			require.NoError(t, r.Err)
		}
		command(t, server, "CONFIG", "RESETSTAT")
		want(t, wire.Released, n, release("o1", "a"))
		return commandCalls(t, server)
	}
	calls(2) // the server learns the scripts
	few := calls(2)
	assert.Equal(t, few, calls(1000))
	assert.LessOrEqual(t, few, int64(25))
}

// One unreachable waiter is enough to remove all waiters of its client.
func TestRedisAsksADeadClientOnce(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	names := []string{"a", "b", "d"}
	want(t, wire.Granted, n, acquire("o1", names...))
	for i := range 100 {
		want(t, wire.Denied, n, waits(fmt.Sprint("dead:", i), int64(i), names...))
	}
	want(t, wire.Denied, n, waits("c:1", 1000, names...))
	command(t, server, "CONFIG", "RESETSTAT")
	want(t, wire.Released, n, release("o1", names...))
	for range names {
		assert.Equal(t, "c:1", next(t, messages).Waiter)
	}
	assert.Contains(t, command(t, server, "INFO", "commandstats"), "cmdstat_publish:calls=4,")
}

// commandCalls returns the number of commands since the last reset of the statistics.
func commandCalls(t *testing.T, server *redisproc.Server) (calls int64) {
	t.Helper()
	for line := range strings.Lines(command(t, server, "INFO", "commandstats")) {
		if _, rest, ok := strings.Cut(line, "calls="); ok && !strings.HasPrefix(line, "cmdstat_ping") {
			text, _, _ := strings.Cut(rest, ",")
			calls += number(t, text)
		}
	}
	return calls
}

// A user without the right to look at the queue can still force a release.
func TestRedisForcedReleaseWithoutTheRightToLook(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for _, rules := range []string{
		"~lock:* ~quorumlock:* +eval +evalsha +info +time +hkeys +hset +pttl +pexpire +del +ping +client",
		"~lock:* ~quorumlock:* +@all -exists -zrange",
	} {
		want(t, wire.Granted, n, acquire("o1", "lock:a"))
		r := do(asUser(t, server, rules), force("lock:a"))[0]
		require.NoError(t, r.Err, rules)
		require.Equal(t, wire.Released, r.Outcome, rules)
		require.Len(t, r.Holders, 1, rules)
	}
}

// Another program has written a deadline that no key can have. The queue still gets a TTL.
func TestRedisImpossibleDeadlineInAQueue(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	command(t, server, "HSET", waitingOfA, "-", "inf", "", "inf", "x", "inf")
	want(t, wire.Granted, n, acquire("o1", "a"))
	require.Equal(t, wire.Denied, do(n, waits("c:1", 1, "a"))[0].Outcome)
	require.NotEqual(t, "-1", command(t, server, "PTTL", "quorumlock:queue:{a}"))
}

// A node that is out of memory adds no entry for the waiter. It still reports the holder and the
// remaining TTL.
func TestRedisDenialsWithoutMemory(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	messages := listen(t, n, "c")
	const patient = "c:1@500" // The other waiter has to ask within the privilege of this one.
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Denied, n, waits(patient, 1, "a"))
	server.Config("maxmemory", "1")
	for _, op := range []wire.Op{waits("c:2", 2, "a"), waits("c:2", 2, "b", "a"), fairly("c:2", 2, "a"), fairly("c:2", 2, "a", "b")} {
		r := want(t, wire.Denied, n, op)
		assert.Equal(t, "a", r.Holder.Name)
		assert.Equal(t, "o1", r.Holder.Owner)
		assert.Zero(t, r.Rank)
	}
	transient(t, server)
	want(t, wire.Denied, n, waits(patient, 1, "a"))
	want(t, wire.Absent, n, leaves("c:2", "a", "b"))
	want(t, wire.Released, n, release("o1", "a"))
	assert.Equal(t, patient, next(t, messages).Waiter)
	r := want(t, wire.Denied, n, fairly("c:2", 2, "a"))
	assert.Empty(t, r.Holder.Owner)
	fails(t, node.ErrRejected, n, fairly("c:2", 2, "b"))
	fails(t, node.ErrRejected, n, waits("c:2", 2, "b"))
	assert.Empty(t, held(server))

	server.Config("maxmemory", "0")
	want(t, wire.Granted, n, fairly(patient, 1, "a"))
	want(t, wire.Denied, n, waits("c:2", 2, "a"))
	want(t, wire.Released, n, leaves("c:2", "a"))
	assert.Empty(t, messages)
}
