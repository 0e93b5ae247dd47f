package waiting_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// acquirers acquire locks of all kinds that can wait.
var acquirers = map[string]func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error){
	"lock": func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
		return c.RedLock("job").Acquire(ctx)
	},
	"several names": func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
		return c.MultiLock("job", "other").Acquire(ctx)
	},
	"writer": func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
		return c.RWLock("job").Write().Acquire(ctx)
	},
	"reader": func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
		return c.RWLock("job").Read().Acquire(ctx)
	},
	"permits": func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
		return c.Semaphore("jobs", 2).Acquire(ctx, 2)
	},
}

// holdAll takes what the acquirers wait for.
func holdAll(t *testing.T, c *quorumlock.Client) (release func()) {
	t.Helper()
	l, err := c.RedLock("job").Acquire(t.Context())
	require.NoError(t, err)
	p, err := c.Semaphore("jobs", 2).Acquire(t.Context(), 1)
	require.NoError(t, err)
	fleet.Settle() // on all nodes
	return func() {
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, p.Release(t.Context()))
	}
}

// A waiter that gets no message finds out at the next beat that it may have what it waits for.
func TestLostMessagesAreMadeUpByABeat(t *testing.T) {
	for kind, acquire := range acquirers {
		t.Run(kind, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				release := holdAll(t, f.Client())
				c, spies := f.SpiedClient()
				for _, s := range spies {
					s.Set(func(s *fleet.Spy) { s.Message = func(wire.Message) bool { return false } })
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					l, err := acquire(t.Context(), c)
					assert.NoError(t, err)
					assert.NoError(t, l.Release(t.Context()))
				}()
				time.Sleep(5 * time.Second)
				asked := spies[0].Asked()
				require.LessOrEqual(t, asked, 3, "an attempt is made only if there is hope")
				release()
				require.LessOrEqual(t, f.Elapsed(func() { <-done }), 1100*time.Millisecond)
				fleet.Settle()
				require.Greater(t, spies[0].Asked(), asked)
				f.RequireNoKeys()
			})
		})
	}
}

// A client that had no waiter for a while beats again for the next one.
func TestBeatsBeginAnew(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		held := fleet.MustAcquire(t, f.Client().RedLock("job"))
		c, spies := f.SpiedClient()
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.Message = func(wire.Message) bool { return false } })
		}
		ctx, giveUp := context.WithCancel(t.Context())
		first := fleet.StartAcquire(ctx, t, c.RedLock("job"))
		time.Sleep(5 * time.Second)
		giveUp()
		<-first.Done
		time.Sleep(5 * time.Second)

		second := fleet.StartAcquire(t.Context(), t, c.RedLock("job"))
		time.Sleep(2 * time.Second)
		require.True(t, second.Waits())
		require.NoError(t, held.Release(t.Context()))
		require.LessOrEqual(t, f.Elapsed(func() { <-second.Done }), 1100*time.Millisecond)
		require.NoError(t, second.Err)
	})
}

// Nodes that were down or hung get beats again: a beat may be the call that finds out that a node is back.
func TestNodesThatReturnGetBeatsAgain(t *testing.T) {
	for how, c := range map[string]struct{ goOut, comeBack func(*fleet.Fleet, ...int) }{
		"down": {(*fleet.Fleet).Stop, (*fleet.Fleet).Start}, "hung": {(*fleet.Fleet).Pause, (*fleet.Fleet).Resume},
	} {
		for _, nodes := range [][]int{{0}, {0, 1, 2}} {
			t.Run(fmt.Sprintf("%d %s", len(nodes), how), func(t *testing.T) {
				fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
					before := fleet.MustAcquire(t, f.Client().RedLock("job"))
					client, spies := f.SpiedClient()
					waits := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
					time.Sleep(3 * time.Second)
					c.goOut(f, nodes...)
					time.Sleep(5 * time.Second)
					c.comeBack(f, nodes...)
					time.Sleep(5 * time.Second)
					for _, s := range spies {
						beats := s.Beats()
						time.Sleep(5 * time.Second)
						require.Greater(t, s.Beats(), beats+3)
					}
					require.NoError(t, before.Release(t.Context()))
					_ = waits.Has()
				})
			})
		}
	}
}

// Nodes that have forgotten a waiter have it in their queues again after the next beat.
func TestBeatsRestoreForgottenEntries(t *testing.T) {
	for kind, acquire := range acquirers {
		if kind == "permits" {
			continue // the names of its queue differ
		}
		t.Run(kind, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				release := holdAll(t, f.Client())
				c, spies := f.SpiedClient()
				var waiter atomic.Value
				spies[0].Set(func(s *fleet.Spy) {
					s.Before = func(ops []wire.Op) {
						for _, op := range ops {
							if op.Waiter.ID != "" {
								waiter.Store(op.Waiter.ID)
							}
						}
					}
				})
				ctx, giveUp := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, err := acquire(ctx, c)
					assert.ErrorIs(t, err, quorumlock.ErrHeld)
				}()
				time.Sleep(2 * time.Second)
				require.Equal(t, 3, f.Waiters())
				asked := spies[0].Asked()
				for _, n := range f.Nodes {
					replies := make([]wire.Reply, 1)
					n.Do(t.Context(), []wire.Op{{
						Kind: wire.Leave, Names: []string{"job"}, Waiter: wire.Waiter{ID: waiter.Load().(string)},
					}}, replies)
					require.Equal(t, wire.Released, replies[0].Outcome)
				}
				require.Zero(t, f.Waiters())
				time.Sleep(time.Second)
				require.Equal(t, asked, spies[0].Asked(), "no attempt is needed for that")
				require.Equal(t, 3, f.Waiters())
				giveUp()
				<-done
				release()
				f.RequireNoKeys()
			})
		})
	}
}

// A waiter that gives up names the present holder, though it has not asked since another one held the lock.
func TestErrorOfAWaiterNamesThePresentHolder(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		first := fleet.MustAcquire(t, f.Client().RedLock("job"))
		second := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		time.Sleep(time.Millisecond)
		third := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		time.Sleep(time.Millisecond)
		c, spies := f.SpiedClient()
		ctx, giveUp := context.WithCancel(t.Context())
		waits := fleet.StartAcquire(ctx, t, c.RedLock("job"))
		require.True(t, waits.Waits())
		require.NoError(t, first.Release(t.Context()))
		lease := second.Has()
		asked := spies[0].Asked()
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, asked, spies[0].Asked())
		giveUp()
		<-waits.Done
		var held *quorumlock.HeldError
		require.ErrorAs(t, waits.Err, &held)
		require.Equal(t, lease.Owner(), held.Owner)
		require.Len(t, held.Nodes, 3)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, third.Has().Release(t.Context()))
	})
}
