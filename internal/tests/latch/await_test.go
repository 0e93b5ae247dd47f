package latch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// refusingNode is a node that refuses all operations for a reason, once it is told to.
type refusingNode struct {
	node.Node
	reason *atomic.Pointer[error]
}

func (n refusingNode) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	reason := n.reason.Load()
	if reason == nil {
		n.Node.Do(ctx, ops, replies)
		return
	}
	for i, op := range ops {
		replies[i] = wire.Reply{Err: &node.Error{Node: n.Name(), Op: op.Kind.String(), Reason: *reason}}
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
				f.Stop(2) // which may pass, so the first node alone ends nothing
				time.Sleep(5 * time.Second)
				waits(t, done)
				f.Start(2)
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

// The context of a waiter ends while the nodes are being asked once more. The nodes are well, and the last round said
// that the latch is open: that is the error, and no lack of a quorum.
func TestWaitThatEndsInTheMiddleOfARound(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, spies := f.SpiedClient()
		l := client.Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		counts(t, l, "x")
		ctx, cancel := context.WithCancel(t.Context())
		done := awaiting(ctx, l)
		time.Sleep(3 * time.Second)
		waits(t, done)

		asked := make(chan struct{}, 1)
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) {
				s.Before = func([]wire.Op) {
					select {
					case asked <- struct{}{}:
					default:
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		<-asked
		cancel()
		err := <-done
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.ErrorContains(t, err, `latch "a" is open: 1 of 2 ids have not counted down`)
	})
}

// A cancelled waiter leaves the nodes: they tell its client of nothing more, although the client's subscription is open.
func TestCancelledLatchWaiterIsToldNothing(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, spies := f.SpiedClient()
		var told atomic.Int64
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) {
				s.Message = func(wire.Message) bool { told.Add(1); return true }
			})
		}
		other := f.Client().Latch("a")
		for _, cancelled := range []bool{false, true} {
			require.NoError(t, other.Set(t.Context(), 1))
			ctx, cancel := context.WithCancel(t.Context())
			done := awaiting(ctx, client.Latch("a"))
			waits(t, done)
			if cancelled {
				cancel()
				require.ErrorIs(t, <-done, context.Canceled)
				fleet.Settle()
			}
			told.Store(0)
			counts(t, other, "x")
			fleet.Settle()
			require.Equal(t, cancelled, told.Load() == 0)
			if !cancelled {
				require.NoError(t, <-done)
			}
			cancel()
			require.NoError(t, other.Delete(t.Context()))
			time.Sleep(time.Millisecond)
		}
	})
}

// fullNode takes no ids, as if it were out of memory.
type fullNode struct{ node.Node }

func (n fullNode) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	for i, op := range ops {
		if op.Latch == nil || len(op.Latch.IDs) == 0 {
			n.Node.Do(ctx, ops[i:i+1], replies[i:i+1])
		} else {
			replies[i] = wire.Reply{Err: &node.Error{Node: n.Name(), Op: op.Kind.String(), Reason: node.ErrUnreachable}}
		}
	}
}

// Each of two nodes has another one of two ids, and no node takes more. So no majority has both, and a later one might miss one.
func TestAwaitNeedsAMajorityWithAllIDs(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		require.NoError(t, f.Client().Latch("a").Set(t.Context(), 2))
		fleet.Settle() // each node knows the latch
		for i, id := range []string{"x", "y"} {
			f.Do(i, wire.Granted, wire.Op{Kind: wire.Latch, Names: []string{"a"}, TTL: time.Hour, Latch: &wire.LatchOp{IDs: []string{id}}})
		}
		waiter := f.Client(func(cfg *quorumlock.Config) {
			for i := range cfg.Nodes {
				cfg.Nodes[i] = fullNode{cfg.Nodes[i]}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, waiter.Latch("a").Await(ctx), context.DeadlineExceeded)
		require.NoError(t, f.Client().Latch("a").Await(t.Context()), "the nodes can agree now")
	})
}
