package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
)

// benchNodes are those on which a benchmark of waiting runs.
const benchNodes = 5

// onBenchNodes runs a benchmark in memory, which is what the coordinator itself costs, and on real
// servers. It is given what makes a client of the nodes.
func onBenchNodes(b *testing.B, run func(b *testing.B, client func(...func(*quorumlock.Config)) *quorumlock.Client)) {
	b.Run("memory", func(b *testing.B) {
		cfg := quorumlock.Config{Logger: slog.New(slog.DiscardHandler)}
		for i := range benchNodes {
			cfg.Nodes = append(cfg.Nodes, node.NewMemory(fmt.Sprintf("n%d", i+1), nil))
		}
		_, err := admin.Init(b.Context(), cfg)
		require.NoError(b, err)
		run(b, func(changes ...func(*quorumlock.Config)) *quorumlock.Client {
			return newClient(b, append(changes, func(c *quorumlock.Config) { c.Nodes = cfg.Nodes })...)
		})
	})
	b.Run("redis", func(b *testing.B) { run(b, startCluster(b, benchNodes).client) })
}

// takers is how many take turns: so many that somebody waits whenever the lock is released.
const takers = 8

// BenchmarkHandover takes a lock in turns: an operation is one turn, from the grant to the next. Those
// who take turns wait in one client, which hands the lease over (by=handover) or has it taken anew
// (by=round), or in a client each (by=clients), which the nodes have to wake.
func BenchmarkHandover(b *testing.B) {
	onBenchNodes(b, func(b *testing.B, client func(...func(*quorumlock.Config)) *quorumlock.Client) {
		b.Run("by=handover", func(b *testing.B) {
			var handed atomic.Int64
			c := client(func(cfg *quorumlock.Config) {
				cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) {
					if e.HandedOver {
						handed.Add(1)
					}
				}
			})
			benchmarkTurns(b, slices.Repeat([]*quorumlock.Lock{c.RedLock("job")}, takers)...)
			b.ReportMetric(float64(handed.Swap(0))/float64(b.N), "handed-over/op")
		})
		b.Run("by=round", func(b *testing.B) {
			lock := client().RedLock("job").With(quorumlock.LockOptions{NoHandover: true})
			benchmarkTurns(b, slices.Repeat([]*quorumlock.Lock{lock}, takers)...)
		})
		b.Run("by=clients", func(b *testing.B) {
			var locks []*quorumlock.Lock
			for range takers {
				locks = append(locks, client().RedLock("job"))
			}
			benchmarkTurns(b, locks...)
		})
	})
}

// benchmarkTurns has b.N turns of a lock taken, each by somebody who waits while another has it.
func benchmarkTurns(b *testing.B, locks ...*quorumlock.Lock) {
	b.Helper()
	b.ReportAllocs()
	for _, lock := range locks { // connects
		require.NoError(b, acquire(b, lock).Release(b.Context()))
	}
	var begun atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for _, lock := range locks {
		all.Go(func() {
			for begun.Add(1) <= int64(b.N) {
				lease, err := lock.Acquire(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				if err := lease.Release(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}

// BenchmarkDenied tries to have a lock that somebody else has: an attempt that fails, with what it
// takes to find out. It is another client who has it (by=others), or this one (by=own).
func BenchmarkDenied(b *testing.B) {
	onBenchNodes(b, func(b *testing.B, client func(...func(*quorumlock.Config)) *quorumlock.Client) {
		holder, other := client(), client()
		held := acquire(b, holder.RedLock("job"))
		for by, c := range map[string]*quorumlock.Client{"others": other, "own": holder} {
			b.Run("by="+by, func(b *testing.B) {
				b.ReportAllocs()
				lock := c.RedLock("job")
				_, err := lock.TryAcquire(context.Background()) // connects
				require.ErrorIs(b, err, quorumlock.ErrHeld)
				for b.Loop() {
					if _, err := lock.TryAcquire(context.Background()); !errors.Is(err, quorumlock.ErrHeld) {
						b.Fatal(err)
					}
				}
			})
		}
		require.NoError(b, held.Err())
		require.NoError(b, held.Release(b.Context()))
	})
}

// BenchmarkNested acquires a lock that the context has already.
func BenchmarkNested(b *testing.B) {
	onBenchNodes(b, func(b *testing.B, client func(...func(*quorumlock.Config)) *quorumlock.Client) {
		lock := client().RedLock("job")
		held := acquire(b, lock)
		b.Run("by=context", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lease, err := lock.Acquire(held.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
		require.NoError(b, held.Release(b.Context()))
	})
}
