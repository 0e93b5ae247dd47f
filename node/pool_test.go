package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestNamesOfPools(t *testing.T) {
	seen := make(map[string]bool)
	for _, name := range []string{"a", "{a}", "{a}b", "a:1", "{a}:1", "{a}:0", "{a", "a}", "{}x", ":", "é\x00"} {
		pool := wire.PoolName(name)
		assert.False(t, seen[pool], "%q shares its pool with another", name)
		seen[pool] = true
		for _, slot := range []int{0, 7, 1023} {
			assert.Equal(t, slot, wire.SlotOf(pool, wire.SlotName(pool, slot)))
			assert.Equal(t, -1, wire.SlotOf(pool+"x", wire.SlotName(pool, slot)))
		}
		rest := strings.TrimPrefix(pool, "quorumlock:permits:")
		assert.Equal(t, -1, wire.SlotOf(pool, "quorumlock:permit:x:"+rest))
		assert.Equal(t, -1, wire.SlotOf(pool, "quorumlock:permit:-1:"+rest))

		told, slots, ok := wire.Vacated("quorumlock:permit:3,14:" + rest)
		assert.True(t, ok)
		assert.Equal(t, pool, told)
		assert.Equal(t, []int{3, 14}, slots)
		told, slots, ok = wire.Vacated("quorumlock:permit::" + rest)
		assert.True(t, ok)
		assert.Equal(t, pool, told)
		assert.Empty(t, slots)
	}
	for _, name := range []string{"", "a", "a:1", "quorumlock:permit:", "quorumlock:permit:1", "quorumlock:permits:{a}", "quorumlock:queue:{a}:1"} {
		_, _, ok := wire.Vacated(name)
		assert.False(t, ok, name)
	}
}

func TestPoolWaiterID(t *testing.T) {
	assert.Equal(t, "c:1", wire.PoolWaiterID("c:1", 1))
	assert.Equal(t, "c:1*12", wire.PoolWaiterID("c:1", 12))
	assert.Equal(t, "c:1*12", wire.WaiterKey(wire.WaiterID(wire.PoolWaiterID("c:1", 12), maxPrivilege)))
}

// maxPrivilege is the longest time for which a free lock is reserved for a waiter.
const maxPrivilege = 500_000_000

// slots returns the operation for the numbered slots of a pool of the given size.
func slots(size int, op wire.Op, numbers ...int) wire.Op {
	op.Pool = wire.Pool{Name: wire.PoolName("lock:a"), Size: size}
	for _, i := range numbers {
		op.Names = append(op.Names, wire.SlotName(op.Pool.Name, i))
	}
	return op
}

// A user with the rights to wait for locks may run all operations on pools.
func TestRedisPoolACL(t *testing.T) {
	server := start(t)
	n := asUser(t, server, "resetchannels", minimalACL, waitingACL)
	_, err := inbox.Listen(context.Background(), n, "c", false, func(wire.Message) {})
	require.NoError(t, err)
	waiting := func(id string, op wire.Op) wire.Op {
		op.Waiter = wire.Waiter{ID: id, Ticket: 1, Keep: long}
		op.Fair = true
		return op
	}
	done := waiting("c:1", slots(2, release("o3"), 0))
	done.Waiter.Keep = 0
	resize := slots(3, wire.Op{Kind: wire.Resize, Names: []string{"lock:a"}})
	resize.Pool.Version = 1
	wantAll(t, n, []wire.Op{
		slots(2, acquire("o1"), 0), slots(2, acquire("o2"), 1),
		waiting("c:1", slots(2, acquire("o3"), 0)), waiting("c:2", slots(2, acquire("o4"), 0)),
		slots(2, release("o1"), 0), waiting("c:1", slots(2, acquire("o3"), 0)), waiting("c:1", slots(2, release("o3"), 0)),
		waiting("c:1", slots(2, acquire("o3"), 0)), done, slots(2, leaves("c:2", "lock:a")), resize,
	}, wire.Granted, wire.Granted, wire.Denied, wire.Denied,
		wire.Released, wire.Granted, wire.Released, wire.Granted, wire.Released, wire.Released, wire.Granted)
}

// Denials list the free slots of a pool. For a large pool, one script call does so only a few times, since it blocks the server.
func TestDenialsByALargePoolRunApart(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	ops := make([]wire.Op, 7)
	for i := range ops {
		ops[i] = acquire(fmt.Sprint("o", i), wire.SlotName(wire.PoolName("s"), 0))
		ops[i].Pool = wire.Pool{Name: wire.PoolName("s"), Size: 1024}
	}
	want(t, wire.Granted, n, ops[0])
	for range 2 { // the first time, the server learns the scripts
		command(t, server, "CONFIG", "RESETSTAT")
		for _, r := range do(n, ops[1:]...) {
			require.Equal(t, wire.Denied, r.Outcome, r.Err)
		}
	}
	require.Contains(t, command(t, server, "INFO", "commandstats"), "cmdstat_evalsha:calls=4,", "three denials together, and three alone")
}
