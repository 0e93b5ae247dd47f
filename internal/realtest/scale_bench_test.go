package realtest_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// usage is the cost of the scripts on a server, as INFO commandstats reports it.
type usage struct {
	calls int
	took  time.Duration
}

// scripts returns the total cost of the scripts on all servers so far.
func (c *cluster) scripts() (sum usage) {
	c.t.Helper()
	for i := range c.servers {
		for line := range strings.Lines(c.command(i, "INFO", "commandstats")) {
			name, stats, _ := strings.Cut(line, ":calls=")
			if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
				continue
			}
			calls, rest, _ := strings.Cut(stats, ",usec=")
			usec, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(calls)
			require.NoError(c.t, err)
			us, err := strconv.Atoi(usec)
			require.NoError(c.t, err)
			sum.calls += n
			sum.took += time.Duration(us) * time.Microsecond
		}
	}
	return sum
}

// slowest returns the longest time for which a script blocked a server, among those over 1 ms.
func (c *cluster) slowest() (longest time.Duration, slow int) {
	c.t.Helper()
	for i := range c.servers {
		lines := strings.Split(c.command(i, "SLOWLOG", "GET", "-1"), "\n")
		for j, line := range lines {
			if strings.HasPrefix(strings.TrimSpace(line), "EVAL") && j > 0 {
				us, err := strconv.Atoi(strings.TrimSpace(lines[j-1]))
				if err == nil {
					longest = max(longest, time.Duration(us)*time.Microsecond)
					slow++
				}
			}
		}
	}
	return longest, slow
}

// bystander takes its own lock in a loop until it is stopped. It then returns the time of the
// slowest acquisition.
func bystander(b testing.TB, client *quorumlock.Client) (stop func() (longest time.Duration, turns int)) {
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	var longest time.Duration
	turns := 0
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			began := time.Now()
			lease, err := client.RedLock("bystander").Acquire(context.WithoutCancel(ctx))
			if err != nil {
				b.Error(err)
				return
			}
			longest = max(longest, time.Since(began))
			turns++
			if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
				b.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return func() (time.Duration, int) {
		cancel()
		<-done
		return longest, turns
	}
}

// counters is the number of callers that count a latch down.
const counters = 128

// countDown counts a latch down from n. The callers share the clients.
func countDown(t testing.TB, clients []*quorumlock.Client, name string, n int) {
	var all sync.WaitGroup
	var next atomic.Int64
	for c := range counters {
		l := clients[c%len(clients)].Latch(name)
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := l.CountDown(context.Background(), strconv.FormatInt(i, 10)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkLargestLatch counts a latch of the largest size down. Meanwhile eight clients wait for it, and
// another client uses a lock on the same servers. The callers that count down share one client, or each has
// its own.
func BenchmarkLargestLatch(b *testing.B) {
	for _, n := range []int{100, quorumlock.MaxLatchCount} {
		for _, c := range []struct{ waiters, clients int }{{0, 1}, {8, 1}, {8, counters}} {
			waiters, clients := c.waiters, c.clients
			b.Run(fmt.Sprintf("n=%d/waiters=%d/clients=%d", n, waiters, clients), func(b *testing.B) {
				c := startCluster(b, 3)
				for i := range c.servers {
					c.command(i, "CONFIG", "SET", "slowlog-log-slower-than", "2000")
				}
				other := c.client(patiently)
				var users, crowd []*quorumlock.Client
				for range clients {
					users = append(users, c.client(patiently))
				}
				for range waiters {
					crowd = append(crowd, c.client(patiently))
				}
				for b.Loop() {
					ctx := context.Background()
					l := users[0].Latch("job")
					require.NoError(b, l.Set(ctx, n))
					var wait sync.WaitGroup
					for _, w := range crowd {
						wait.Go(func() {
							if err := w.Latch("job").Await(ctx); err != nil {
								b.Error(err)
							}
						})
					}
					stop := bystander(b, other)
					before, began := c.scripts(), time.Now()
					countDown(b, users, "job", n)
					counted := time.Since(began)
					wait.Wait()
					after := c.scripts()
					longest, turns := stop()
					slowest, slow := c.slowest()
					b.ReportMetric(counted.Seconds(), "count-s")
					b.ReportMetric(time.Since(began).Seconds(), "all-s")
					b.ReportMetric(float64(after.calls-before.calls)/float64(n*3), "scripts/id/node")
					b.ReportMetric(float64((after.took-before.took).Microseconds())/float64(n*3), "server-us/id/node")
					b.ReportMetric(float64(longest.Milliseconds()), "others-ms")
					b.ReportMetric(float64(turns), "others")
					b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
					b.ReportMetric(float64(slow), "slow")
					require.NoError(b, l.Delete(ctx))
				}
			})
		}
	}
}
