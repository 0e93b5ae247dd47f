package realtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// An operation of these benchmarks is an uncontended acquire with its release. Each caller uses
// its own lock.

// BenchmarkAcquireRelease on willing nodes measures the cost of the coordinator alone. The module bench compares with the
// least that a lock could cost.
func BenchmarkAcquireRelease(b *testing.B) {
	b.Run("willing", benchmarkWilling)
	b.Run("redis", benchmarkRedis)
}

func benchmarkWilling(b *testing.B) {
	for n := 1; n <= 7; n++ {
		for _, callers := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("nodes=%d/callers=%d", n, callers), func(b *testing.B) {
				client, err := quorumlock.New(quorumlock.Config{Nodes: willingNodes(n), AllowEven: true, Logger: slog.New(slog.DiscardHandler)})
				require.NoError(b, err)
				defer closeClient(b, client)
				each(b, callers, acquireAndRelease(client))
			})
		}
	}
}

func benchmarkRedis(b *testing.B) {
	for _, n := range []int{1, 3, 5, 7} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			c := startCluster(b, n)
			for _, callers := range []int{1, 16, 128} {
				b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
					client, err := quorumlock.New(quorumlock.Config{Addresses: c.addresses()})
					require.NoError(b, err)
					defer closeClient(b, client)
					c.count(b, callers, acquireAndRelease(client))
				})
			}
		})
	}
}

func acquireAndRelease(client *quorumlock.Client) func(name string) error {
	return func(name string) error {
		lease, err := client.RedLock(name).Acquire(context.Background())
		if err != nil {
			return err
		}
		return lease.Release(context.Background())
	}
}

// each divides b.N operations among the given number of callers.
func each(b *testing.B, callers int, operate func(name string) error) {
	b.Helper()
	b.ReportAllocs()
	names := make([]string, callers)
	for i := range names {
		names[i] = "bench:" + strconv.Itoa(i)
	}
	require.NoError(b, operate(names[0])) // This connects the client.
	before := runtime.NumGoroutine()
	var started atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for _, name := range names {
		all.Go(func() {
			for started.Add(1) <= int64(b.N) {
				if err := operate(name); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(runtime.NumGoroutine()-before), "goroutines-left")
}

// count runs each and reports the number of scripts per operation on each server.
func (c *cluster) count(b *testing.B, callers int, operate func(name string) error) {
	b.Helper()
	c.t = b
	total := func() (calls int) {
		for i := range c.servers {
			calls += c.calls(i)
		}
		return calls
	}
	for i := range c.servers {
		c.command(i, "FLUSHALL")
	}
	c.open(c.limits)
	before := total()
	each(b, callers, operate)
	b.ReportMetric(float64(total()-before)/float64(b.N+1)/float64(len(c.servers)), "scripts/op/node")
}
