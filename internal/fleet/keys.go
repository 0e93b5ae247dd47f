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
	const name = "job"
	// A denial tells a waiter how many are before it in the queue.
	for _, nd := range f.Nodes {
		op := node.Op{
			Kind: node.Acquire, Names: []string{name}, Owner: "stranger:1", TTL: time.Second,
			Token: uint64(f.Clock.Wall().UnixMicro()), Limits: f.Limits,
			Waiter: node.Waiter{ID: "stranger:1", Ticket: 1 << 52, Keep: time.Millisecond},
		}
		replies := make([]node.Reply, 1)
		nd.Do(f.T.Context(), []node.Op{op}, replies)
		require.Equal(f.T, node.Denied, replies[0].Outcome)
		n += replies[0].Rank
		nd.Do(f.T.Context(), []node.Op{{Kind: node.Leave, Names: []string{name}, Waiter: node.Waiter{ID: "stranger:1"}}}, replies)
	}
	return n
}

// Take grants a name to another owner on some nodes, for the default TTL.
func (f *Fleet) Take(name, owner string, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		replies := make([]node.Reply, 1)
		f.Nodes[i].Do(f.T.Context(), []node.Op{{
			Kind: node.Acquire, Names: []string{name}, Owner: owner, TTL: quorumlock.DefaultTTL,
			Token: uint64(f.Clock.Wall().UnixMicro()), Limits: quorumlock.Config{}.Limits(),
		}}, replies)
		require.Equal(f.T, node.Granted, replies[0].Outcome)
	}
}

// Free releases an owner's name on some nodes. For a holder that is still alive this is a loss of memory which the node
// does not notice.
func (f *Fleet) Free(name, owner string, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		replies := make([]node.Reply, 1)
		f.Nodes[i].Do(f.T.Context(), []node.Op{{Kind: node.Release, Names: []string{name}, Owner: owner}}, replies)
		require.Equal(f.T, node.Released, replies[0].Outcome)
	}
}
