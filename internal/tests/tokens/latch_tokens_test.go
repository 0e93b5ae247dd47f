package tokens_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// Two nodes reject every token. Their reasons are *node.Errors that name them.
func TestErrorsOfNodesThatRejectTheToken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(func(cfg *quorumlock.Config) {
			for i := range 2 {
				cfg.Nodes[i] = &liar{Node: f.Nodes[i], tell: func(op node.Op) uint64 { return op.Token }}
			}
		})
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, fleet.MustBeRefused(t, client.RedLock("job")), &short)
		require.ErrorContains(t, short, "rejected our fencing token")
		require.NotEmpty(t, short.Nodes)
		for _, n := range short.Nodes {
			var one *node.Error
			require.ErrorAs(t, n.Err, &one, "%v", n.Err)
			require.Equal(t, n.Node, one.Node)
		}
	})
}
