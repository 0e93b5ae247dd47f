package waiting_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// heldWire is the connection to a node. It lets one exchange pass for each value in pass, and records all operations.
type heldWire struct {
	pass chan struct{}

	mu        sync.Mutex
	exchanges [][]wire.Op
}

func (w *heldWire) before(ops []wire.Op) {
	w.mu.Lock()
	w.exchanges = append(w.exchanges, slices.Clone(ops))
	w.mu.Unlock()
	<-w.pass
}

// exchangeWith returns the number of the first exchange with an operation on a name, or 0.
func (w *heldWire) exchangeWith(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return 1 + slices.IndexFunc(w.exchanges, func(ops []wire.Op) bool {
		return slices.ContainsFunc(ops, func(op wire.Op) bool { return op.Names[0] == name })
	})
}

// count counts the operations of a kind on names with a prefix.
func (w *heldWire) count(kind wire.Kind, prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, op := range slices.Concat(w.exchanges...) {
		if op.Kind == kind && strings.HasPrefix(op.Names[0], prefix) {
			n++
		}
	}
	return n
}

// Many callers give up while one exchange with each node is under way. What was not on the wire by then is never
// sent, and needs no undo. So the next caller waits for that exchange and for its own.
func TestAbandonedCallsAreNeverSent(t *testing.T) {
	const onWire = 200
	for _, abandoned := range []int{1, 300, 4000} {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d calls, try %t", abandoned, try), func(t *testing.T) {
				fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
					c, spies := f.SpiedClient()
					f.Introduce(c)
					wires := make([]*heldWire, len(spies))
					for i, s := range spies {
						w := &heldWire{pass: make(chan struct{})}
						wires[i] = w
						s.Set(func(s *fleet.Spy) { s.Before = w.before })
					}
					first := fleet.StartAcquire(t.Context(), t, c.RedLock("first"))
					ctx, giveUp := context.WithCancel(t.Context())
					var callers sync.WaitGroup
					callAll := func(prefix string, n int) {
						for i := range n {
							lock := c.RedLock(fmt.Sprint(prefix, i))
							callers.Go(func() {
								acquire := lock.Acquire
								if try {
									acquire = lock.TryAcquire
								}
								_, err := acquire(ctx)
								assert.ErrorIs(t, err, context.Canceled)
							})
						}
						fleet.Settle()
					}
					callAll("sent", onWire)
					for _, w := range wires {
						w.pass <- struct{}{}
					}
					fleet.Settle()
					callAll("queued", abandoned)
					giveUp()
					callers.Wait()
					next := fleet.StartAcquire(t.Context(), t, c.RedLock("next"))
					for _, w := range wires {
						require.Equal(t, onWire, w.count(wire.Acquire, "sent"), "the second exchange has them")
						close(w.pass)
					}
					for _, a := range []*fleet.Acquisition{next, first} {
						require.NoError(t, a.Has().Release(t.Context()))
					}
					fleet.Settle()
					for _, w := range wires {
						require.Equal(t, 3, w.exchangeWith("next"), "the exchange after that which was under way")
						require.Equal(t, onWire, w.count(wire.Release, "sent"), "each is undone")
						require.Zero(t, w.count(wire.Acquire, "queued"))
						require.Zero(t, w.count(wire.Release, "queued"), "there is nothing to undo")
					}
					f.RequireNoKeys()
				})
			})
		}
	}
}

// The hooks learn that no node was asked, and why.
func TestAbandonedCallIsReported(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var mu sync.Mutex
		var votes []quorumlock.VoteEvent
		c, spies := f.SpiedClient(func(cfg *quorumlock.Config) {
			cfg.Hooks.Voted = func(e quorumlock.VoteEvent) {
				mu.Lock()
				defer mu.Unlock()
				votes = append(votes, e)
			}
		})
		f.Introduce(c)
		wires := make([]*heldWire, len(spies))
		for i, s := range spies {
			wires[i] = &heldWire{pass: make(chan struct{})}
			s.Set(func(s *fleet.Spy) { s.Before = wires[i].before })
		}
		sent := fleet.StartAcquire(t.Context(), t, c.RedLock("sent"))
		fleet.Settle()
		ctx, giveUp := context.WithCancel(t.Context())
		queued := fleet.StartAcquire(ctx, t, c.RedLock("queued"))
		fleet.Settle()
		giveUp()
		<-queued.Done
		fleet.Settle()
		mu.Lock()
		require.Len(t, votes, 3)
		for _, v := range votes {
			require.True(t, v.Unsent)
			require.ErrorContains(t, v.Err, "the caller gave up before the operation was sent")
		}
		mu.Unlock()
		for _, w := range wires {
			close(w.pass)
		}
		require.NoError(t, sent.Has().Release(t.Context()))
	})
}

// A waiter that is in the queues of the nodes gives up while its next attempt is not sent. It leaves the queues.
func TestAbandonedAttemptLeavesTheQueues(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		holder := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		ctx, giveUp := context.WithCancel(t.Context())
		w := fleet.StartAcquire(ctx, t, c.RedLock("job"))
		require.True(t, w.Waits())
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 3, f.Waiters(), "one entry on each node")
		wires := make([]*heldWire, len(spies))
		for i, s := range spies {
			wires[i] = &heldWire{pass: make(chan struct{})}
			s.Set(func(s *fleet.Spy) { s.Before = wires[i].before })
		}
		slow := fleet.StartAcquire(t.Context(), t, c.RedLock("slow")) // holds the senders
		require.NoError(t, holder.Release(t.Context()))               // wakes the waiter
		fleet.Settle()
		giveUp()
		<-w.Done
		for _, w := range wires {
			close(w.pass)
		}
		require.NoError(t, slow.Has().Release(t.Context()))
		fleet.Settle()
		for _, w := range wires {
			require.Zero(t, w.count(wire.Acquire, "job"), "its attempt was not on the wire")
			require.Equal(t, 1, w.count(wire.Leave, "job"))
		}
		f.RequireNoKeys()
	})
}
