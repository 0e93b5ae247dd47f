package realtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node/memory"
)

// benchNodes is the number of nodes of a benchmark of waiting.
const benchNodes = 5

// onBenchNodes runs a benchmark in memory, where there is no network, and on real servers. The benchmark gets a function that makes a client of the nodes.
func onBenchNodes(b *testing.B, run func(b *testing.B, client func(...func(*quorumlock.Config)) *quorumlock.Client)) {
	b.Run("memory", func(b *testing.B) {
		cfg := quorumlock.Config{Logger: slog.New(slog.DiscardHandler)}
		for i := range benchNodes {
			cfg.Nodes = append(cfg.Nodes, memory.New(fmt.Sprintf("n%d", i+1), nil))
		}
		_, err := admin.Init(b.Context(), cfg)
		require.NoError(b, err)
		run(b, func(changes ...func(*quorumlock.Config)) *quorumlock.Client {
			return newClient(b, append(changes, func(c *quorumlock.Config) { c.Nodes = cfg.Nodes })...)
		})
	})
	b.Run("redis", func(b *testing.B) { run(b, startCluster(b, benchNodes).client) })
}

// takers is the number of contenders. It is large enough for a waiter at every release.
const takers = 8

// BenchmarkHandover passes a lock between contenders. An operation is one turn, from one grant to
// the next. With by=handover all contenders share a client that hands the lease over. With
// by=round they share a client and the lock is acquired anew. With by=clients each contender has
// its own client, and the nodes have to wake it.
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

// benchmarkTurns takes b.N turns of a lock. In each turn a waiter gets the lock from its holder.
func benchmarkTurns(b *testing.B, locks ...*quorumlock.Lock) {
	b.Helper()
	b.ReportAllocs()
	for _, lock := range locks { // This connects the clients.
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
