package fleet

import (
	"cmp"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Waiters returns how many entries the queues of all nodes have for the lock "job". The lock must be held.
func (f *Fleet) Waiters() (n int) {
	f.T.Helper()
	names, waiter := []string{"job"}, wire.Waiter{ID: "stranger:1", Ticket: 1 << 52, Keep: time.Millisecond}
	// A denial tells a waiter how many are before it in the queue.
	for i := range f.Nodes {
		n += f.Do(i, wire.Denied, wire.Op{Kind: wire.Acquire, Names: names, Owner: "stranger:1", TTL: time.Second, Waiter: waiter}).Rank
		f.Do(i, wire.Released, wire.Op{Kind: wire.Leave, Names: names, Waiter: wire.Waiter{ID: waiter.ID}})
	}
	return n
}

// Freeze puts a waiter for the lock "job" into the queues of some nodes. The waiter may listen, but it never asks.
func (f *Fleet) Freeze(keep time.Duration, id string, ticket int64, listens bool, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		if listens {
			inbox, err := f.Nodes[i].Listen(f.T.Context(), id, false, func(wire.Message) {})
			require.NoError(f.T, err)
			f.T.Cleanup(func() { _ = inbox.Close() })
		}
		f.Do(i, wire.Denied, wire.Op{
			Kind: wire.Acquire, Names: []string{"job"}, Owner: id + ":o", TTL: time.Second, Fair: true,
			Waiter: wire.Waiter{ID: id + ":1", Ticket: ticket, Keep: keep},
		})
	}
}

// Take grants a name to another owner on some nodes, for the default TTL.
func (f *Fleet) Take(name, owner string, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		f.Do(i, wire.Granted, wire.Op{Kind: wire.Acquire, Names: []string{name}, Owner: owner, TTL: quorumlock.DefaultTTL})
	}
}

// Free releases an owner's name on some nodes. For a holder that is still alive this is a loss of memory which the node
// does not notice.
func (f *Fleet) Free(name, owner string, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		f.Do(i, wire.Released, wire.Op{Kind: wire.Release, Names: []string{name}, Owner: owner})
	}
}

// Do runs an operation on a node, and requires its outcome. The operation has the limits of the nodes, and the present
// time as its token, unless it has others.
func (f *Fleet) Do(i int, outcome wire.Outcome, op wire.Op) wire.Reply {
	f.T.Helper()
	op.Limits = cmp.Or(op.Limits, f.Limits)
	op.Token = cmp.Or(op.Token, uint64(f.Clock.Wall().UnixMicro()))
	replies := make([]wire.Reply, 1)
	f.Nodes[i].Do(f.T.Context(), []wire.Op{op}, replies)
	require.Equal(f.T, outcome, replies[0].Outcome, "%v", replies[0].Err)
	return replies[0]
}
