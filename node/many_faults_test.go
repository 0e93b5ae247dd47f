package node_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// immortal lists a server's keys without a TTL, except its marker and the fences.
func immortal(t *testing.T, server *redisproc.Server) (keys []string) {
	t.Helper()
	for _, key := range server.Keys() {
		if key != "quorumlock:node" && key != "quorumlock:fences" && command(t, server, "PTTL", key) == "-1" {
			keys = append(keys, key)
		}
	}
	return keys
}

// A missing right never leaves a lock without a TTL.
func TestRedisNoRightLeavesAnImmortalLock(t *testing.T) {
	server := start(t)
	for _, missing := range [][]string{{"pexpire"}, {"pexpire", "del"}, {"pexpire", "hdel"}, {"set"}, {"hset"}, {"exists"}, {"hdel"}, {"hkeys"}, {"getrange"}, {"setrange"}, {"pttl"}, {"time"}, {"info"}, {"hmget"}} {
		rules := minimalACL + " "
		for _, c := range missing {
			rules = strings.ReplaceAll(rules, " +"+c+" ", " ")
			rules += " -" + c
		}
		n := asUser(t, server, rules)
		for _, ops := range [][]wire.Op{
			{acquire("o", "lock:a")},
			{acquire("o", "lock:a", "lock:b")},
			{renew("o", "lock:a")},
			{renew("o", "lock:a"), renew("o", "lock:b")},
			{acquire("o", "lock:a"), acquire("o", "lock:b"), renew("o", "lock:c"), release("o", "lock:a")},
		} {
			for i, r := range do(n, ops...) {
				if r.Err != nil {
					require.ErrorIs(t, r.Err, node.ErrAuth, "%v, %d", missing, i)
				}
			}
			require.Empty(t, immortal(t, server), "%v, %v", missing, ops)
			command(t, server, "DEL", "lock:a", "lock:b", "lock:c")
		}
	}
}

// Operations on forbidden names fail. All others succeed.
func TestManyOperationsOnForbiddenNames(t *testing.T) {
	server := start(t)
	n := asUser(t, server, minimalACL)
	for range 2 {
		replies := do(n, acquire("o", "lock:a"), acquire("o", "another"), renew("o", "another"), release("o", "another"), renew("o", "lock:a"), acquire("o2", "lock:a"), release("o", "lock:a"), acquire("o2", "lock:a"), release("o2", "lock:a"))
		for i, outcome := range []wire.Outcome{wire.Granted, wire.Unknown, wire.Unknown, wire.Unknown, wire.Granted, wire.Denied, wire.Released, wire.Granted, wire.Released} {
			require.Equal(t, outcome, replies[i].Outcome, "operation %d: %v", i, replies[i].Err)
			if outcome == wire.Unknown {
				require.ErrorIs(t, replies[i].Err, node.ErrAuth)
			}
		}
	}
	require.Empty(t, held(server))
}

// A server that is out of memory still serves holders. Its answers to all others match its state.
func TestManyOperationsWithoutMemory(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	wantAll(t, n, []wire.Op{acquire("o", "a"), acquire("o", "b")}, wire.Granted, wire.Granted)
	want(t, wire.Granted, n, acquire("o", "c"))
	server.Config("maxmemory", "1")
	// Before the first write, the server refuses every operation that needs memory.
	replies := do(n, acquire("o", "x"), acquire("o", "y"), renew("o", "gone"), acquire("o2", "a"))
	for i := range 3 {
		require.ErrorIs(t, replies[i].Err, node.ErrRejected)
	}
	require.Equal(t, wire.Denied, replies[3].Outcome)
	require.Equal(t, []string{"a", "b", "c"}, held(server))
	command(t, server, "PEXPIRE", "a", "30000")
	short := renew("o", "a")
	replies = do(n, acquire("o", "x"), short, release("o", "b"), acquire("o", "y"), release("o", "c"), acquire("o", "z"))
	require.Equal(t, wire.Granted, replies[1].Outcome, "%v", replies[1].Err)
	require.Equal(t, wire.Released, replies[2].Outcome)
	require.Equal(t, wire.Released, replies[4].Outcome)
	have := []string{"a"}
	for i, name := range map[int]string{0: "x", 3: "y", 5: "z"} {
		if replies[i].Err == nil {
			require.Equal(t, wire.Granted, replies[i].Outcome)
			have = append(have, name)
		} else {
			require.ErrorIs(t, replies[i].Err, node.ErrRejected)
		}
	}
	require.ElementsMatch(t, have, held(server))
	require.Empty(t, immortal(t, server))
	// The marker is gone and the node cannot write a new one. Holders are still served.
	server.Config("maxmemory", "0")
	command(t, server, "DEL", "quorumlock:node")
	setFence(t, server, "q", "")
	// A renewal raises a fence only if it prolongs the lock. The shorter TTL makes the renewal
	// prolong it.
	command(t, server, "PEXPIRE", "a", "30000")
	server.Config("maxmemory", "1")
	replies = do(n, acquire("o", "q"), renew("o", "a"), acquire("o", "q"))
	require.Equal(t, wire.Granted, replies[1].Outcome, "%v", replies[1].Err)
	require.Positive(t, replies[1].Recovering)
	require.Error(t, replies[0].Err)
	require.Error(t, replies[2].Err)
	require.NotContains(t, held(server), "q")
	server.Config("maxmemory", "0")
}

// A replica answers every command with an error. The node drops the connection to it.
func TestManyOperationsOnAReplica(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	wantAll(t, n, []wire.Op{acquire("o", "a"), acquire("o", "b")}, wire.Granted, wire.Granted)
	command(t, server, "REPLICAOF", "127.0.0.1", "1")
	for i, r := range do(n, acquire("o", "x"), release("o", "a"), renew("o", "b"), acquire("o", "y")) {
		require.NotEqual(t, wire.Granted, r.Outcome, "operation %d", i)
		require.NotEqual(t, wire.Released, r.Outcome, "operation %d", i)
	}
	for i, r := range do(n, release("o", "a"), release("o", "b")) {
		require.Error(t, r.Err, "operation %d", i)
	}
	command(t, server, "REPLICAOF", "NO", "ONE")
	require.Equal(t, []string{"a", "b"}, held(server))
}

// A server may forget some or all of its scripts. This costs only round trips, and every answer
// still matches the server's state.
func TestManyOperationsOnAForgetfulServer(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	server := start(t)
	n := open(t, server.Addr())
	for round := range 100 {
		if r.IntN(2) == 0 {
			command(t, server, "SCRIPT", "FLUSH")
		}
		for range r.IntN(3) { // some are known again
			do(n, exclusive(r)[:1]...)
		}
		first, ops := holdersOn(t, server), exclusive(r)
		holders := maps.Clone(first)
		for i, reply := range do(n, ops...) {
			granted := reply.Outcome == wire.Granted || reply.Outcome == wire.Healed
			for _, name := range ops[i].Names {
				holder := holders[name]
				switch {
				case granted:
					// An operation later in the batch may run twice, and once before this one. It
					// must then be a release of a lock that the owner held before the batch or
					// acquired since.
					freed := slices.ContainsFunc(ops[i:], func(op wire.Op) bool {
						return op.Kind == wire.Release && op.Owner == holder && slices.Contains(op.Names, name)
					})
					require.True(t, freed || slices.Contains([]string{"", ops[i].Owner, first[name]}, holder),
						"%q, seed %d, round %d, operation %d%s", holder, seed, round, i, brief(ops))
					holders[name] = ops[i].Owner
				case ops[i].Kind == wire.Release && reply.Err == nil && holder == ops[i].Owner:
					delete(holders, name)
				}
			}
		}
		require.Equal(t, holders, holdersOn(t, server), "seed %d, round %d%s", seed, round, brief(ops))
	}
}

// exclusive returns a random batch of acquisitions, renewals and releases of locks, at least one. What takes several names takes the
// same ones each time. Otherwise a name of a denied operation could be left from its first run, until its owner undoes it.
func exclusive(r *rand.Rand) (ops []wire.Op) {
	for len(ops) == 0 {
		ops = drawn(r, []string{"a", "n1", "n2", "n3"}, []string{"o0", "o1", "o2"}, uint64(time.Now().UnixMicro()))
		ops = slices.DeleteFunc(ops, func(op wire.Op) bool { return op.Kind > wire.Release || op.Reads || wire.IndexRest(op.Names[0]) != "" })
	}
	for i := range ops {
		if len(ops[i].Names) > 1 {
			ops[i].Names = []string{"x", "y"}
		}
	}
	return ops
}

// holdersOn maps the names on a server to their holders.
func holdersOn(t *testing.T, server *redisproc.Server) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range held(server) {
		all[name] = command(t, server, "HKEYS", name)
	}
	return all
}

// A server's clock has just started at zero, so no token is too old.
func TestManyOperationsAtTheBeginningOfTime(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithClock(time.Hour-time.Duration(time.Now().UnixNano())))
	admit(t, server)
	n := open(t, server.Addr())
	ops := []wire.Op{acquire("o", "a"), acquire("o", "b"), release("o", "a"), renew("o", "b")}
	for i := range ops {
		ops[i].Token = uint64(time.Hour.Microseconds()) + uint64(i)
	}
	wantAll(t, n, ops[:1], wire.Granted)
	ops[0].Names = []string{"c"}
	wantAll(t, n, ops, wire.Granted, wire.Granted, wire.Released, wire.Granted)
}

// A damaged fence blocks neither renewals nor answers. A renewal repairs it.
func TestRedisRenewalsMendFences(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o", "a"))
	for _, damaged := range []string{"not a number", "99999999 a token", "8", "9", ""} {
		for _, ops := range [][]wire.Op{{renew("o", "a")}, {renew("o", "a"), renew("o", "b")}} {
			setFence(t, server, "a", damaged)
			if damaged == "9" { // nothing follows
				command(t, server, "SET", "quorumlock:fences", strings.Repeat("\x00", int(node.FenceOffset("a")))+damaged)
			}
			ops = complete(ops...)
			require.LessOrEqual(t, want(t, wire.Denied, n, acquire("o2", "a")).Holder.Token, uint64(9))
			require.LessOrEqual(t, do(n, acquire("o2", "a"), renew("o", "b"))[0].Holder.Token, uint64(9))
			require.Equal(t, wire.Granted, do(n, ops...)[0].Outcome)
			require.Equal(t, fmt.Sprint(ops[0].Token), storedFence(t, server, "a"))
		}
	}
}
