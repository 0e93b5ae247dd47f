package fleet

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// Waiters returns how many entries the queues of all nodes have for the lock "job". The lock must be held.
func (f *Fleet) Waiters() (n int) {
	f.T.Helper()
	names, waiter := []string{"job"}, node.Waiter{ID: "stranger:1", Ticket: 1 << 52, Keep: time.Millisecond}
	// A denial tells a waiter how many are before it in the queue.
	for i := range f.Nodes {
		n += f.do(i, node.Denied, node.Op{
			Kind: node.Acquire, Names: names, Owner: "stranger:1", TTL: time.Second,
			Token: uint64(f.Clock.Wall().UnixMicro()), Limits: f.Limits, Waiter: waiter,
		}).Rank
		f.do(i, node.Released, node.Op{Kind: node.Leave, Names: names, Waiter: node.Waiter{ID: waiter.ID}})
	}
	return n
}

// Take grants a name to another owner on some nodes, for the default TTL.
func (f *Fleet) Take(name, owner string, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		f.do(i, node.Granted, node.Op{
			Kind: node.Acquire, Names: []string{name}, Owner: owner, TTL: quorumlock.DefaultTTL,
			Token: uint64(f.Clock.Wall().UnixMicro()), Limits: quorumlock.Config{}.Limits(),
		})
	}
}

// Free releases an owner's name on some nodes. For a holder that is still alive this is a loss of memory which the node
// does not notice.
func (f *Fleet) Free(name, owner string, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		f.do(i, node.Released, node.Op{Kind: node.Release, Names: []string{name}, Owner: owner})
	}
}

// do runs an operation on a node, and requires its outcome.
func (f *Fleet) do(i int, outcome node.Outcome, op node.Op) node.Reply {
	f.T.Helper()
	replies := make([]node.Reply, 1)
	f.Nodes[i].Do(f.T.Context(), []node.Op{op}, replies)
	require.Equal(f.T, outcome, replies[0].Outcome)
	return replies[0]
}
