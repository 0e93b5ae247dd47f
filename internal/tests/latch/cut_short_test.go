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
				s.Before = func([]node.Op) {
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
				s.Message = func(node.Message) bool { told.Add(1); return true }
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
