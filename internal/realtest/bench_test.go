package realtest_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"encoding/hex"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// An operation of these benchmarks is an uncontended acquire with its release. Each caller uses
// its own lock.

// BenchmarkAcquireRelease on willing nodes measures the cost of the coordinator alone. On Redis it
// compares this library (by=quorumlock) with the minimal cost of one lock after another
// (by=floor...). The floor's scripts lock and do nothing else. One goroutine per node sends them
// through rueidis, and the benchmark awaits a majority without any bookkeeping. It uses one
// connection per node, or rueidis' default of four. Compare with: benchstat -col /by.
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
					b.Run("by=quorumlock", func(b *testing.B) {
						client, err := quorumlock.New(quorumlock.Config{Addresses: c.addresses()})
						require.NoError(b, err)
						defer closeClient(b, client)
						c.count(b, callers, acquireAndRelease(client))
					})
					b.Run("by=floor1", func(b *testing.B) { c.floor(b, callers, -1) })
					b.Run("by=floor4", func(b *testing.B) { c.floor(b, callers, 0) })
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

// floor measures the baseline of BenchmarkAcquireRelease.
func (c *cluster) floor(b *testing.B, callers, multiplex int) {
	b.Helper()
	acquire, release := newScript(floorAcquire), newScript(floorRelease)
	clients := make([]rueidis.Client, 0, len(c.servers))
	for _, addr := range c.addresses() {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true, PipelineMultiplex: multiplex,
		})
		require.NoError(b, err)
		defer client.Close()
		for _, s := range []script{acquire, release} {
			require.NoError(b, client.Do(context.Background(), client.B().ScriptLoad().Script(s.source).Build()).Error())
		}
		clients = append(clients, client)
	}
	var stragglers sync.WaitGroup
	defer stragglers.Wait()
	fanOut := func(s script, name string, args ...string) error {
		answers := make(chan error, len(clients))
		for _, client := range clients {
			stragglers.Go(func() {
				cmd := client.B().Evalsha().Sha1(s.sha).Numkeys(1).Key(name).Arg(args...).Build()
				answers <- client.Do(context.Background(), cmd).Error()
			})
		}
		for range len(clients)/2 + 1 {
			if err := <-answers; err != nil {
				return err
			}
		}
		return nil
	}
	var owners atomic.Uint64
	c.count(b, callers, func(name string) error {
		owner := "floor:" + strconv.FormatUint(owners.Add(1), 10)
		if err := fanOut(acquire, name, owner, "10000"); err != nil {
			return err
		}
		return fanOut(release, name, owner)
	})
}

// The floor's scripts lock as the library does, but without recovery, tokens, and several names.
const (
	floorAcquire = `if redis.call('HKEYS', KEYS[1])[1] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`
	floorRelease = `if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('DEL', KEYS[1])`
)

type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts by their SHA-1
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}
