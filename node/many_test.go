package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
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

// A failed operation does not affect the other operations of its batch.
func TestManyOperationsFailOneByOne(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	command(t, server, "SET", "foreign", "1")
	command(t, server, "SET", "quorumlock:queue:{q}", "1")
	fair := acquire("o", "q")
	fair.Fair = true
	replies := do(n, acquire("o", "a"), acquire("o", "foreign"), renew("o", "foreign"), release("o", "foreign"), fair, acquire("o", "b"), release("o", "a"))
	require.Equal(t, node.Granted, replies[0].Outcome)
	require.ErrorIs(t, replies[1].Err, node.ErrWrongType)
	require.ErrorIs(t, replies[2].Err, node.ErrWrongType)
	require.Equal(t, node.Absent, replies[3].Outcome)
	require.ErrorIs(t, replies[4].Err, node.ErrWrongType)
	require.Equal(t, node.Granted, replies[5].Outcome)
	require.Equal(t, node.Released, replies[6].Outcome)
	require.Equal(t, []string{"b", "foreign"}, held(server))
}

// A renewal prolongs an old lease by a full TTL and never shortens a lease.
func TestManyRenewalsProlong(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	ops := make([]node.Op, 0, 3)
	for _, name := range []string{"short", "long", "other's"} {
		want(t, node.Granted, n, acquire("o1", name))
		op := renew("o1", name)
		op.TTL, op.Token = 90*time.Second, uint64(time.Now().Add(-2*limits.MaxTTL).UnixMicro())
		ops = append(ops, op)
	}
	ops[2].Owner = "o2"
	command(t, server, "PEXPIRE", "short", "60000")
	command(t, server, "PEXPIRE", "long", "120000")
	command(t, server, "PEXPIRE", "other's", "60000")
	wantAll(t, n, ops, node.Granted, node.Granted, node.Denied)
	require.InDelta(t, 90_000, number(t, command(t, server, "PTTL", "short")), 10_000)
	require.InDelta(t, 120_000, number(t, command(t, server, "PTTL", "long")), 10_000)
	require.InDelta(t, 60_000, number(t, command(t, server, "PTTL", "other's")), 10_000)
}

// A node in recovery serves holders and denies all others.
func TestManyOperationsWhileANodeRecovers(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, node.Granted, n, acquire("o1", "a"))
	command(t, server, "FLUSHALL")
	replies := do(n, acquire("o2", "b"), renew("o1", "a"), release("o3", "c"), acquire("o2", "d"), renew("o1", "a"))
	require.ErrorIs(t, replies[0].Err, node.ErrRecovering)
	require.Equal(t, node.Healed, replies[1].Outcome)
	require.Positive(t, replies[1].Recovering)
	require.Equal(t, node.Absent, replies[2].Outcome)
	require.ErrorIs(t, replies[3].Err, node.ErrRecovering)
	require.Equal(t, node.Granted, replies[4].Outcome)
	require.Positive(t, replies[4].Recovering)
}

// A server that may not set TTLs grants no locks.
func TestRedisLocksNeedATTL(t *testing.T) {
	server := start(t)
	rules := strings.Fields("ACL SETUSER u on >secret " + strings.ReplaceAll(minimalACL, " +pexpire ", " ") + " -pexpire")
	command(t, server, rules...)
	n := open(t, "redis://u:secret@"+server.Addr())
	for _, ops := range [][]node.Op{
		{acquire("o", "lock:a")},
		{acquire("o", "lock:a", "lock:b")},
		{renew("o", "lock:a")},
		{acquire("o", "lock:a"), acquire("o", "lock:b")},
		{renew("o", "lock:a"), renew("o", "lock:b")},
	} {
		for _, r := range do(n, ops...) {
			require.ErrorIs(t, r.Err, node.ErrAuth)
		}
		require.Empty(t, held(server))
	}
}

// A fair attempt leaves a free name to the woken waiter. An attempt that barges takes it.
func TestManyOperationsTakeTurns(t *testing.T) {
	n := open(t, start(t).Addr())
	inbox, err := n.Listen(context.Background(), "c", func(node.Message) {})
	require.NoError(t, err)
	defer func() { _ = inbox.Close() }()
	waits := acquire("o2", "a")
	waits.Waiter, waits.Fair = node.Waiter{ID: node.WaiterID("c:1", time.Minute), Ticket: 1, Keep: long}, true
	wantAll(t, n, []node.Op{acquire("o1", "a"), waits, release("o1", "a")}, node.Granted, node.Denied, node.Released)
	polite, rude := acquire("o3", "a"), acquire("o3", "a")
	polite.Fair = true
	wantAll(t, n, []node.Op{acquire("o3", "b"), polite}, node.Granted, node.Denied)
	wantAll(t, n, []node.Op{acquire("o3", "c"), rude}, node.Granted, node.Granted)
}

// A release in a batch notifies Redisson's clients if its operation asks for it.
func TestManyOperationsAnnounce(t *testing.T) {
	n := open(t, start(t).Addr())
	told := make(chan node.Message, 10)
	inbox, err := n.Listen(context.Background(), "c", func(m node.Message) { told <- m })
	require.NoError(t, err)
	defer func() { _ = inbox.Close() }()
	for _, name := range []string{"a", "b"} {
		require.NoError(t, inbox.(node.Follower).Follow(name)) //nolint:forcetypeassert // it is one
	}
	wantAll(t, n, []node.Op{acquire("o1", "a"), acquire("o1", "b")}, node.Granted, node.Granted)
	loud := release("o1", "b")
	loud.Announce = true
	wantAll(t, n, []node.Op{release("o1", "a"), loud}, node.Released, node.Released)
	require.Equal(t, node.Message{Kind: node.Announced, Name: "b"}, <-told)
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
