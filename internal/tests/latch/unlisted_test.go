package latch_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// faultyFor is how often an unlisted node lists nothing: after that it is sound, so that a failed test ends.
const faultyFor = 100

// unlisted is a node that counts the ids of a latch and lists none of them.
type unlisted struct {
	node.Node
	asked *atomic.Int64
}

func (n unlisted) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	n.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if s := replies[i].Latch; s != nil && op.Latch != nil && op.Latch.List && n.asked.Add(1) < faultyFor {
			wrong := *s
			wrong.IDs = nil
			replies[i].Latch = &wrong
		}
	}
}

// A faulty node says that it has ids, and lists none. It counts as a node that does not answer, and is not asked
// again and again.
func TestNodeThatListsNoIDs(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var asked atomic.Int64
		reads := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[0] = unlisted{cfg.Nodes[0], &asked} })
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 5))
		counts(t, l, "x", "y")
		fleet.Settle()
		left(t, reads.Latch("a"), 3)
		fleet.Settle() // The round goes on after the call has returned.
		require.LessOrEqual(t, asked.Load(), int64(2))

		f.Stop(1)
		_, err := reads.Latch("a").Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.ErrorIs(t, err, node.ErrProtocol)
		f.Start(1)
	})
}
