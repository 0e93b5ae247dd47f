package latch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// The reason of a node that forgot count-downs is a *node.Error too.
func TestErrorOfANodeThatForgot(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		fleet.Settle()
		f.Stop(2)
		counts(t, l, "x")
		fleet.Settle()
		f.Nodes[1].Flush()
		f.Start(2)
		f.Stop(0)
		time.Sleep(2 * time.Second)
		_, err := l.Count(t.Context())
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &short)
		require.ErrorContains(t, err, "lost its memory")
		require.Len(t, short.Nodes, 2)
		for _, n := range short.Nodes {
			var one *node.Error
			require.ErrorAs(t, n.Err, &one, "%v", n.Err)
			require.Equal(t, n.Node, one.Node)
		}
		f.Start(0)
	})
}
