package waiting_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// A waiter gives up while its attempt is under way. The attempt is undone when the grants arrive, and that must not put
// the waiter back into the queues.
func TestUndoOfAWaiterThatHasGoneQueuesNothing(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c, spies := f.SpiedClient()
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		waiter := fleet.StartAcquire(ctx, t, c.RedLock("job"))
		require.True(t, waiter.Waits())

		var mu sync.Mutex
		var undos []node.Waiter
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) {
				s.Before = func(ops []node.Op) {
					mu.Lock()
					defer mu.Unlock()
					for _, op := range ops {
						if op.Kind == node.Release {
							undos = append(undos, op.Waiter)
						}
					}
				}
				s.After = fleet.OnAcquire(func() { time.Sleep(100 * time.Millisecond) }) // the reply is on its way
				// All nodes are free when the waiter is woken, so all of them grant.
				s.Message = func(node.Message) bool { time.Sleep(time.Millisecond); return true }
			})
		}
		require.NoError(t, before.Release(t.Context())) // wakes the waiter
		time.Sleep(50 * time.Millisecond)
		require.Len(t, f.Nodes[0].Keys(), 1, "the nodes have granted")
		cancel()
		<-waiter.Done
		require.ErrorIs(t, waiter.Err, context.Canceled)
		time.Sleep(200 * time.Millisecond)
		f.RequireNoKeys()
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, undos, 3)
		for _, w := range undos {
			require.NotEmpty(t, w.ID)
			require.Zero(t, w.Keep, "it leaves the queue")
		}
	})
}
