package lease_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// ofNodes requires that the error of each node is a *node.Error that names it.
func ofNodes(t *testing.T, op node.Kind, nodes []quorumlock.NodeError) {
	t.Helper()
	require.NotEmpty(t, nodes)
	for _, n := range nodes {
		var one *node.Error
		require.ErrorAs(t, n.Err, &one, "%v", n.Err)
		require.Equal(t, n.Node, one.Node)
		require.Equal(t, op, one.Op)
	}
}

// The nodes no longer had a lease when it was released.
func TestErrorsOfNodesThatNoLongerHadTheLease(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client().RedLock("job"))
		f.Free("job", lease.Owner(), 0, 1, 2)
		lost := lossOf(t, lease.Release(t.Context()))
		require.Len(t, lost.Nodes, 3)
		ofNodes(t, node.Release, lost.Nodes)
	})
}

// Nodes prove nothing to a Resume, for three reasons: another token, an absent lock, and a lock that was put back late.
func TestErrorsOfNodesThatDoNotProveALease(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first := left(t, f.Client().RedLock("job").With(fixed))
		fleet.Settle()
		do := func(i int, kind node.Kind, token uint64) {
			t.Helper()
			replies := make([]node.Reply, 1)
			f.Nodes[i].Do(t.Context(), []node.Op{{
				Kind: kind, Names: first.Names(), Owner: first.Owner(), Token: token, TTL: quorumlock.DefaultTTL, Limits: f.Limits,
			}}, replies)
			require.NoError(t, replies[0].Err)
		}
		do(0, node.Release, 0)
		do(0, node.Acquire, first.Token()-1) // an earlier proposal
		do(1, node.Release, 0)
		var votes []quorumlock.VoteEvent
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.Voted = func(e quorumlock.VoteEvent) { votes = append(votes, e) }
		})
		f.Stop(2)
		_, err := client.RedLock("job").With(fixed).Resume(t.Context(), first.Owner(), first.Token())
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &short)
		ofNodes(t, node.Resume, short.Nodes)
		f.Start(2)
		fleet.Settle()
		require.Len(t, votes, 5)
		for _, v := range votes {
			if v.Vote != quorum.Granted {
				ofNodes(t, node.Resume, []quorumlock.NodeError{{Node: v.Node, Err: v.Err}})
			}
		}
	})
}
