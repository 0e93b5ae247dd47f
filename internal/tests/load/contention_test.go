//go:build !race

package load_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// served has the number of turns of each client, and the longest wait for a turn.
type served struct {
	mu      sync.Mutex
	count   []int
	longest time.Duration
}

// busy runs several goroutines for each client, which acquire and release one lock in a loop until lasting is
// over.
func busy(f *fleet.Fleet, clients []*quorumlock.Client, users int, o quorumlock.LockOptions, hold, lasting time.Duration) *served {
	s := &served{count: make([]int, len(clients))}
	r := &fleet.Referee{T: f.T}
	ctx, cancel := context.WithTimeout(f.T.Context(), lasting)
	defer cancel()
	var wg sync.WaitGroup
	for i, c := range clients {
		lock := c.RedLock("job").With(o)
		for range users {
			wg.Go(func() {
				for {
					began := f.Clock.Now()
					lease, err := lock.Acquire(ctx)
					s.mu.Lock()
					s.longest = max(s.longest, f.Clock.Now()-began)
					s.mu.Unlock()
					if err != nil {
						assert.ErrorIs(f.T, err, context.DeadlineExceeded)
						return
					}
					r.Grant(lease)
					s.mu.Lock()
					s.count[i]++
					s.mu.Unlock()
					time.Sleep(hold)
					assert.NoError(f.T, lease.Release(ctx))
				}
			})
		}
	}
	wg.Wait()
	return s
}

// Each client gets its turns. Without hand-over, clients that wait in the queues get equal shares.
func TestNoClientStarves(t *testing.T) {
	for _, o := range []quorumlock.LockOptions{{}, {NoHandover: true}} {
		for _, users := range []int{1, 4} {
			t.Run(fmt.Sprintf("no handover %t, %d each", o.NoHandover, users), func(t *testing.T) {
				t.Parallel()
				fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
					clients := []*quorumlock.Client{f.Client(), f.Client(), f.Client()}
					s := busy(f, clients, users, o, 3*time.Millisecond, 2*time.Second)
					t.Log(s.count, s.longest)
					total := s.count[0] + s.count[1] + s.count[2]
					if o.NoHandover {
						require.LessOrEqual(t, slices.Max(s.count)-slices.Min(s.count), slices.Max(s.count)/10)
					}
					require.Greater(t, total, 2000/3*8/10, "the lock is held for at least 80 % of the time")
					for _, n := range s.count {
						require.Greater(t, n, total/4)
					}
					require.Less(t, s.longest, time.Second)
				})
			})
		}
	}
}

// Spinning waiters have no order. Still, a client with several of them must not keep the lock from another client, by
// hand-overs or without them: its turns are limited.
func TestSpinningClientGetsTurns(t *testing.T) {
	for _, alone := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var turns [2]atomic.Int64
			var all sync.WaitGroup
			for i, users := range []int{4, 1} {
				client, _ := f.DistantClient(time.Millisecond)
				job := client.RedLock("job").With(quorumlock.LockOptions{Spin: true, NoHandover: alone})
				for range users {
					all.Go(func() {
						for ctx.Err() == nil {
							if lease, err := job.Acquire(ctx); err == nil {
								turns[i].Add(1)
								time.Sleep(3 * time.Millisecond)
								_ = lease.Release(ctx)
							}
						}
					})
				}
			}
			all.Wait()
			require.Greater(t, turns[1].Load(), turns[0].Load()/10, "no handover %t", alone)
		})
	}
}

// Tickets are timestamps, so the tickets of a client with a slow clock come first in the queues. Other clients wait
// longer because of the clock skew, but for a bounded time. By default a waiter also waits for the turn of its client,
// and the second waiter of a client may need two such turns.
func TestSkewedTicketsStarveNoClient(t *testing.T) {
	for _, c := range []struct {
		users int
		quorumlock.LockOptions
		most time.Duration
	}{
		{1, quorumlock.LockOptions{}, 4 * time.Second},
		{2, quorumlock.LockOptions{}, 7 * time.Second},
		{2, quorumlock.LockOptions{NoHandover: true}, 7 * time.Second},
	} {
		t.Run(fmt.Sprintf("no handover %t, %d each", c.NoHandover, c.users), func(t *testing.T) {
			t.Parallel()
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				clients := []*quorumlock.Client{
					f.Client(), f.Client(fleet.SkewedBy(f, -2*time.Second)), f.Client(fleet.SkewedBy(f, 900*time.Millisecond)),
				}
				s := busy(f, clients, c.users, c.LockOptions, 10*time.Millisecond, 12*time.Second)
				t.Log(s.count, s.longest)
				require.Less(t, s.longest, c.most)
				for _, n := range s.count {
					require.GreaterOrEqual(t, n, 3)
				}
			})
		})
	}
}
