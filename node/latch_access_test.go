package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// latchACL adds the rights that a user of minimalACL needs for latches.
var latchACL = rulesOf(rights.Latches())

// everyLatch runs every command of the scripts about latches.
func everyLatch(n node.Node, token uint64) []wire.Reply {
	op := func(kind wire.Kind, ask wire.LatchOp) wire.Op {
		token++
		return wire.Op{Kind: kind, Names: []string{"lock:a"}, TTL: long, Token: token, Latch: &ask}
	}
	return do(
		n, op(wire.Latch, wire.LatchOp{Count: 1, First: true, Since: token}),
		op(wire.Latch, wire.LatchOp{Inbox: "c", Keep: time.Minute}),
		op(wire.Latch, wire.LatchOp{IDs: []string{"x"}}),
		op(wire.Latch, wire.LatchOp{List: true}),
		op(wire.Unlatch, wire.LatchOp{}),
	)
}

// A user with these rights can run every latch command, with or without the rights to wait. Each
// of these rights is necessary.
func TestRedisLatchACL(t *testing.T) {
	server := start(t)
	user := func(rules ...string) []wire.Reply {
		command(t, server, "FLUSHALL")
		n := opened(t, asUser(t, server, rules...))
		return everyLatch(n, uint64(serverTime(t, server).UnixMicro()))
	}
	rules := "resetchannels " + minimalACL
	for _, more := range []string{"", waitingACL} {
		for i, r := range user(rules, latchACL, more) {
			require.NoError(t, r.Err, "operation %d", i)
			require.Equal(t, wire.Granted, r.Outcome, "operation %d", i)
		}
	}
	eachIsNeeded(t, user, rules, latchACL)
}

// A latch key of another type is an error. The node changes nothing before it returns the error.
func TestRedisLatchOfAnotherType(t *testing.T) {
	server := start(t)
	for _, key := range []string{"quorumlock:latch:{lock:a}", "quorumlock:latched:{lock:a}"} {
		command(t, server, "FLUSHALL")
		n := opened(t, open(t, server.Addr()))
		command(t, server, "SET", key, "not a latch")
		before := len(server.Keys())
		for _, r := range everyLatch(n, uint64(serverTime(t, server).UnixMicro())) {
			require.ErrorIs(t, r.Err, node.ErrWrongType)
		}
		require.Len(t, server.Keys(), before)
	}
}
