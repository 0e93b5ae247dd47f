package node_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// drawn returns a random batch with few names and owners, so that its operations conflict.
func drawn(r *rand.Rand) []node.Op {
	ops := make([]node.Op, 1+r.IntN(12))
	for i := range ops {
		owner, name := fmt.Sprint("o", r.IntN(3)), fmt.Sprint("n", r.IntN(4))
		switch r.IntN(11) {
		case 0, 1, 2, 3:
			ops[i] = acquire(owner, name)
			ops[i].Fair = r.IntN(2) == 0
			ops[i].Reserve = uint64(r.IntN(2) * r.IntN(1000))
		case 4, 5, 6:
			ops[i] = release(owner, name)
		case 7, 8:
			ops[i] = renew(owner, name)
		case 9:
			ops[i] = acquire(owner, name)
			ops[i].Fair = r.IntN(2) == 0
			ops[i].Waiter = node.Waiter{ID: owner + ":w", Ticket: int64(i), Keep: long}
		default:
			ops[i] = acquire(owner, name+"x", name+"y")
		}
		if ops[i].Reads = r.IntN(3) == 0; ops[i].Reads {
			ops[i].Reserve = 0
		}
		if r.IntN(20) == 0 {
			ops[i].Limits = differing
		}
		ops[i].Owner = owner
		// Some tokens repeat, so the node does not accept them. Others are far from the current
		// time.
		ops[i].Token = uint64(time.Now().UnixMicro()) + uint64(r.IntN(2000))
		switch n := r.IntN(25); {
		case n == 0:
			ops[i].Token += uint64(2 * limits.MaxClockSkew.Microseconds())
		case n == 1, n < 15 && ops[i].Kind == node.Renew: // held for long
			ops[i].Token -= uint64(2 * limits.MaxTTL.Microseconds())
		}
	}
	if r.IntN(10) == 0 {
		for i := range ops {
			ops[i].TTL = 2 * limits.MaxTTL
		}
	}
	return complete(ops...)
}

// differing are limits that differ from the node's.
var differing = node.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Second}

// loadScripts loads all forms of the scripts into the server. A batch is then never sent again because
// of an unknown script.
func loadScripts(n node.Node, all ...node.Limits) {
	for _, l := range all {
		for _, name := range []string{"a", "{a}"} {
			barge, announced := acquire("o", name), release("o", name)
			barge.Fair, announced.Announce = false, true
			fair := barge
			fair.Fair = true
			for _, op := range []node.Op{barge, fair, renew("o", name), announced, release("o", name), force(name), inspect(name)} {
				op.Limits = l
				do(n, op)
			}
			op := release("o", name)
			op.Limits = l
			do(n, op, op)
			do(n, reads(acquire("o", name)))
			do(n, reads(renew("o", name)))
			do(n, reads(release("o", name)))
		}
	}
	do(n, node.Op{Kind: node.Leave, Names: []string{"a"}, Waiter: node.Waiter{ID: "c:1"}})
}

// told describes answers without the values that depend on time: which of two names lives longer.
func told(ops []node.Op, replies []node.Reply) []string {
	all := make([]string, len(replies))
	for i, r := range replies {
		reason := ""
		if r.Err != nil {
			reason = r.Err.(*node.Error).Reason.Error() //nolint:errorlint,forcetypeassert // always one
		}
		if len(ops[i].Names) > 1 {
			r.Holder = node.Holder{}
		}
		all[i] = fmt.Sprintf("%v by %q of %q with %d, rank %d, token %d, %v", r.Outcome, r.Holder.Owner, r.Holder.Name, r.Holder.Token, r.Rank, r.Token, reason)
	}
	return all
}

// A batch has the same answers and the same effects as its operations sent one by one. This holds
// for a server and for an in-memory node.
func TestManyOperationsAreWhatEachIs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	together, alone := start(t), start(t)
	inOneGo, oneByOne := open(t, together.Addr()), open(t, alone.Addr())
	loadScripts(inOneGo, limits, differing)
	loadScripts(oneByOne, limits, differing)
	for round := range 300 {
		inMemory := opened(t, memory.New("m", clock.System()))
		for range 1 + r.IntN(4) {
			ops := drawn(r)
			answers := do(inOneGo, ops...)
			each := make([]node.Reply, 0, len(ops))
			for _, op := range ops {
				each = append(each, do(oneByOne, op)...)
			}
			require.Equal(t, told(ops, each), told(ops, answers), "seed %d, round %d: %+v", seed, round, ops)
			require.Equal(t, told(ops, do(inMemory, ops...)), told(ops, answers), "seed %d, round %d: %+v", seed, round, ops)
		}
		require.Equal(t, alone.Keys(), together.Keys(), "seed %d, round %d", seed, round)
		for _, name := range []string{"n0", "n1", "n2", "n3"} {
			require.Equal(t, storedFence(t, alone, name), storedFence(t, together, name), "seed %d", seed)
		}
		command(t, together, "FLUSHALL")
		command(t, alone, "FLUSHALL")
		admit(t, together)
		admit(t, alone)
	}
}

// A damaged fence does not block readers or permits either.
func TestDamagedFencesCountAsAbsent(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	pool := node.Pool{Name: node.PoolName("s"), Size: 2}
	slot := node.SlotName(pool.Name, 0)
	for _, name := range []string{"a", slot} {
		setFence(t, server, name, "damaged")
	}
	reader, keeps, permit := acquire("o1", "a"), renew("o1", "a"), acquire("o1", slot)
	reader.Reads, keeps.Reads, permit.Pool = true, true, pool
	want(t, node.Granted, n, reader)
	setFence(t, server, "a", "damaged")
	want(t, node.Granted, n, keeps)
	want(t, node.Granted, n, permit)
}

// A damaged fence does not count as a token. A token with fewer digits is smaller.
func TestManyOperationsMendFences(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for _, damaged := range []string{"0000000000000005", "0000000000000009", "not a number too", "9", ""} {
		setFence(t, server, "a", damaged)
		op := complete(acquire("o1", "a"))[0]
		for i, r := range do(n, op, acquire("o1", "b")) {
			require.Equal(t, node.Granted, r.Outcome)
			require.Zero(t, r.Token, "%d after %q", i, damaged)
		}
		require.Equal(t, strconv.FormatUint(op.Token, 10), storedFence(t, server, "a"))
		wantAll(t, n, []node.Op{release("o1", "a"), release("o1", "b")}, node.Released, node.Released)
	}
}
