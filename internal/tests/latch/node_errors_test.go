package latch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// refusingNode is a node that refuses all operations for a reason, once it is told to.
type refusingNode struct {
	node.Node
	reason *atomic.Pointer[error]
}

func (n refusingNode) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	reason := n.reason.Load()
	if reason == nil {
		n.Node.Do(ctx, ops, replies)
		return
	}
	for i, op := range ops {
		replies[i] = node.Reply{Err: &node.Error{Node: n.Name(), Op: op.Kind, Reason: *reason}}
	}
}

// Too many nodes refuse for a reason that waiting cannot mend. A waiter ends at once, also one that has waited for a
// while. It goes on waiting if the others suffice, and for a reason that may pass.
func TestWaitEndsWhereWaitingCannotHelp(t *testing.T) {
	for reason, ends := range map[error]bool{
		node.ErrAuth: true, node.ErrSettings: true, node.ErrWrongType: true, node.ErrMisconfigured: true,
		node.ErrUnreachable: false, node.ErrRecovering: false,
	} {
		t.Run(reason.Error(), func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				var reasons [3]atomic.Pointer[error]
				waiter := f.Client(func(cfg *quorumlock.Config) {
					for i := range cfg.Nodes {
						cfg.Nodes[i] = refusingNode{cfg.Nodes[i], &reasons[i]}
					}
				}).Latch("a")
				l := f.Client().Latch("a")
				require.NoError(t, l.Set(t.Context(), 1))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				done := awaiting(ctx, waiter)
				reasons[0].Store(&reason)
				time.Sleep(5 * time.Second)
				waits(t, done)
				reasons[1].Store(&reason)
				time.Sleep(2 * time.Second)
				if !ends {
					waits(t, done)
					reasons[1].Store(nil)
					counts(t, l, "x")
					time.Sleep(5 * time.Second)
					require.NoError(t, <-done)
					return
				}
				for _, err := range []error{<-done, waiter.Await(ctx)} {
					require.NotErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
					require.ErrorIs(t, err, reason)
				}
			})
		})
	}
}
