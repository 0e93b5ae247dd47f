package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node/memory"
)

// granting notes that a node has granted a lock.
type granting struct {
	*memory.Node
	granted *atomic.Bool
}

func (g granting) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	g.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Acquire && replies[i].Outcome == wire.Granted {
			g.granted.Store(true)
		}
	}
}

// TestCancelAtTheInstantOfTheElection: a candidate whose Run ends before it leads keeps no MinHold.
func TestCancelAtTheInstantOfTheElection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		holds := func(cfg *election.Config) { cfg.Lock.MinHold = 5 * time.Second }
		b := w.candidate("b", holds)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var granted atomic.Bool
		client := w.Client(func(cfg *quorumlock.Config) {
			for i, nd := range w.Nodes {
				cfg.Nodes[i] = granting{nd, &granted}
			}
			cfg.Jitter = func() float64 { // behind the votes, the client asks for it only when the lease begins
				if granted.Load() {
					cancel()
				}
				return 0.5
			}
		})
		err := w.candidateOf(client, "a", holds).Run(ctx, func(context.Context, election.Term) error {
			t.Error("it leads")
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)

		began := w.Clock.Now()
		start(t, b).leads()
		require.Less(t, w.Clock.Now()-began, time.Second)
	})
}
