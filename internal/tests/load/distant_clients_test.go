//go:build !race

package load_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A remote client gets turns although local clients contend for the lock, even if it needs all nodes.
func TestRemoteClientAmongLocalOnes(t *testing.T) {
	// Some of these round trips are shorter than the grace period of a woken waiter, and some are longer.
	ways := fleet.Longer([]int{10, 30, 60}, []int{10, 20, 30, 40, 50, 60, 100})
	for _, ms := range ways {
		oneWay := time.Duration(ms) * time.Millisecond
		for _, need := range []string{"most", "all", "both all"} {
			for _, o := range []quorumlock.LockOptions{{}, {NoHandover: true}} {
				t.Run(fmt.Sprint(oneWay, need, o.NoHandover), func(t *testing.T) {
					t.Parallel() // Each has virtual time of its own.
					fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
						first := f.Client()
						far, spies := f.DistantClient(oneWay)
						for i, s := range spies {
							s.Way += time.Duration(i) * time.Millisecond
						}
						lock := far.RedLock("job").With(o)
						if need != "most" {
							lock = far.MultiLock("job").With(o)
						}
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
						defer cancel()
						turns, longest := 0, time.Duration(0)
						var wg sync.WaitGroup
						wg.Go(func() {
							for {
								began := f.Clock.Now()
								l, err := lock.Acquire(ctx)
								longest = max(longest, f.Clock.Now()-began)
								if err != nil {
									return
								}
								turns++
								time.Sleep(3 * time.Millisecond)
								_ = l.Release(ctx)
							}
						})
						var count []int
						if need == "both all" {
							count = busyAll(ctx, []*quorumlock.Client{first, f.Client(), f.Client()}, o)
							wg.Wait()
							t.Logf("far %d turns, longest %v; near %v", turns, longest, count)
							require.Less(t, longest, 3*time.Second)
							return
						}
						s := busy(f, []*quorumlock.Client{first, f.Client(), f.Client()}, 2, o, 3*time.Millisecond, 10*time.Second)
						wg.Wait()
						t.Logf("far %d turns, longest %v; near %v, %v", turns, longest, s.count, s.longest)
						require.Less(t, longest, 3*time.Second)
					})
				})
			}
		}
	}
}

func busyAll(ctx context.Context, clients []*quorumlock.Client, o quorumlock.LockOptions) []int {
	count := make([]int, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		lock := c.MultiLock("job").With(o)
		for range 2 {
			wg.Go(func() {
				for {
					l, err := lock.Acquire(ctx)
					if err != nil {
						return
					}
					count[i]++
					time.Sleep(3 * time.Millisecond)
					_ = l.Release(ctx)
				}
			})
		}
	}
	wg.Wait()
	return count
}

// A waiter on slow links asks often enough to keep its queue entries, which expire after keep.
func TestRemoteWaiterKeepsItsQueueEntries(t *testing.T) {
	const timeout, keep = time.Second, 5 * time.Second
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		held, err := f.Client().RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		last, longest := f.Clock.Now(), time.Duration(0)
		client, _ := f.DistantClient(400*time.Millisecond, func(cfg *quorumlock.Config) {
			cfg.NodeTimeoutMax, cfg.NodeTimeoutMin = timeout, timeout
			cfg.Hooks.AttemptFailed = func(quorumlock.AttemptFailedEvent) {
				longest, last = max(longest, f.Clock.Now()-last), f.Clock.Now()
			}
		})
		far := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
		time.Sleep(2 * time.Minute)
		require.NoError(t, held.Release(t.Context()))
		<-far.Done
		require.NoError(t, far.Has().Release(t.Context()))
		require.Less(t, longest, keep)
	})
}
