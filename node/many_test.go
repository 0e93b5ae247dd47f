package node_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// differing are limits that differ from the node's.
var differing = wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Second}

// loadScripts loads all forms of the scripts into the server. A batch is then never sent again because
// of an unknown script.
func loadScripts(n node.Node, all ...wire.Limits) {
	for _, l := range all {
		for _, name := range []string{"a", "{a}"} {
			barge, announced := acquire("o", name), release("o", name)
			barge.Fair, announced.Announce = false, true
			fair := barge
			fair.Fair = true
			for _, op := range []wire.Op{barge, fair, renew("o", name), announced, release("o", name), force(name), inspect(name)} {
				op.Limits = l
				do(n, op)
				do(n, reads(op))
			}
			op := release("o", name)
			op.Limits = l
			do(n, op, op)
			permit := acquire("o", wire.SlotName(wire.PoolName(name), 0))
			permit.Limits, permit.Pool = l, wire.Pool{Name: wire.PoolName(name), Size: 2}
			for _, fair := range []bool{false, true} {
				permit.Kind, permit.Fair = wire.Acquire, fair
				do(n, permit)
				permit.Kind = wire.Release
				do(n, permit)
			}
		}
	}
	do(n, wire.Op{Kind: wire.Leave, Names: []string{"a"}, Waiter: wire.Waiter{ID: "c:1"}})
}

// told describes answers without the values that depend on time: which of two names lives longer.
func told(ops []wire.Op, replies []wire.Reply) []string {
	all := make([]string, len(replies))
	for i, r := range replies {
		reason := ""
		if r.Err != nil {
			reason = r.Err.(*node.Error).Reason.Error() //nolint:errorlint,forcetypeassert // always one
		}
		if len(ops[i].Names) > 1 {
			r.Holder = wire.Holder{}
		}
		all[i] = fmt.Sprintf("%v by %q of %q with %d, rank %d, token %d, pool %v, %v",
			r.Outcome, r.Holder.Owner, r.Holder.Name, r.Holder.Token, r.Rank, r.Token, r.Pool, reason)
	}
	return all
}

// A damaged fence does not block readers or permits either.
func TestDamagedFencesCountAsAbsent(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	pool := wire.Pool{Name: wire.PoolName("s"), Size: 2}
	slot := wire.SlotName(pool.Name, 0)
	reader, keeps, permit := reads(acquire("o1", "a")), reads(renew("o1", "a")), acquire("o1", slot)
	permit.Pool = pool
	for _, damaged := range []string{"damaged", "-000000000000005"} {
		for _, op := range []wire.Op{reader, keeps, permit} {
			setFence(t, server, op.Names[0], damaged)
			want(t, wire.Granted, n, op)
		}
	}
}

// A damaged fence does not count as a token. A token with fewer digits is smaller.
func TestManyOperationsMendFences(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for _, damaged := range []string{"0000000000000005", "0000000000000009", "not a number too", "9", ""} {
		setFence(t, server, "a", damaged)
		op := complete(acquire("o1", "a"))[0]
		for i, r := range do(n, op, acquire("o1", "b")) {
			require.Equal(t, wire.Granted, r.Outcome)
			require.Zero(t, r.Token, "%d after %q", i, damaged)
		}
		require.Equal(t, strconv.FormatUint(op.Token, 10), storedFence(t, server, "a"))
		wantAll(t, n, []wire.Op{release("o1", "a"), release("o1", "b")}, wire.Released, wire.Released)
	}
}
