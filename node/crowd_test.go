package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// The server runs the same number of commands for a reader in a crowd of any size. This holds
// while readers queue, while they enter, and with a writer among them. The number of commands does
// not depend on the machine's load.
func TestCostOfAReaderDoesNotDependOnTheCrowd(t *testing.T) {
	const few, many = 400, 4000
	small, large := crowdCosts(t, few), crowdCosts(t, many)
	for what, calls := range small {
		t.Logf("%s: %.1f commands a reader in a crowd of %d, %.1f in one of %d", what, calls, few, large[what], many)
		require.Less(t, large[what], 2*calls, what)
	}
}

// crowdCosts counts the commands that the scripts of each reader run in a crowd of n.
func crowdCosts(t *testing.T, n int) map[string]float64 {
	t.Helper()
	x := newCrowd(t, n)
	costs := map[string]float64{}
	x.do(x.writer("holder", wire.Waiter{}))
	costs["queue behind a holder"] = x.cost(func() { x.do(x.readers...) })
	x.do(wire.Op{Kind: wire.Release, Names: []string{"a"}, Owner: "holder"})
	rand.Shuffle(n, func(i, j int) { x.readers[i], x.readers[j] = x.readers[j], x.readers[i] })
	ranks := costOf(t, x.server)["zrank"].calls
	costs["come in, in any order"] = x.cost(func() {
		for _, r := range x.do(x.readers...) {
			require.Equal(t, wire.Granted, r.Outcome)
		}
	})
	require.Equal(t, ranks, costOf(t, x.server)["zrank"].calls, "without a waiting writer, the rank of a reader does not matter")
	x.do(x.writer("waiting", wire.Waiter{ID: "c:w", Ticket: int64(n / 2), Keep: time.Hour}))
	for i := range x.readers {
		x.readers[i].Owner += " again"
	}
	costs["queue around a writer"] = x.cost(func() { x.do(x.readers...) })
	costs["ask again"] = x.cost(func() { x.do(x.readers...) })
	return costs
}

// crowd is a set of readers of one name on one server.
type crowd struct {
	t       *testing.T
	server  *redisproc.Server
	node    *redisNode
	limits  wire.Limits
	readers []wire.Op
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	x := &crowd{t: t, server: redisproc.Start(t), limits: wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}}
	x.node = costNode(t, x.server, x.limits)
	inbox, err := x.node.Listen(context.Background(), "c", false, func(wire.Message) {})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close() })
	for i := range n {
		op := x.writer(fmt.Sprint("reader ", i), wire.Waiter{ID: wire.ReaderID(fmt.Sprint("c:", i), 0), Ticket: int64(i), Keep: time.Hour})
		op.Reads = true
		x.readers = append(x.readers, op)
	}
	return x
}

func (x *crowd) writer(owner string, w wire.Waiter) wire.Op {
	return wire.Op{Kind: wire.Acquire, Names: []string{"a"}, Owner: owner, TTL: time.Hour, Limits: x.limits, Fair: true, Waiter: w}
}

// do runs operations, a few at a time.
func (x *crowd) do(ops ...wire.Op) []wire.Reply {
	x.t.Helper()
	const together = 50
	replies := make([]wire.Reply, len(ops))
	for from := 0; from < len(ops); from += together {
		to := min(from+together, len(ops))
		for i := from; i < to; i++ {
			ops[i].Token = uint64(time.Now().UnixMicro())
		}
		x.node.Do(context.Background(), ops[from:to], replies[from:to])
	}
	for _, r := range replies {
		require.NoError(x.t, r.Err)
	}
	return replies
}

// cost returns the number of commands per reader that a server executes during run.
func (x *crowd) cost(run func()) float64 {
	x.t.Helper()
	calls := func() (sum int) {
		for _, c := range costOf(x.t, x.server) {
			sum += c.calls
		}
		return sum
	}
	before := calls()
	run()
	return float64(calls()-before) / float64(len(x.readers))
}
