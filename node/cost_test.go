package node

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// costBatch is the number of operations that are sent at once.
const costBatch = 256

// reportCost repeats work on a server until it has done b.N operations, and reports what one costs: the time of its
// script and of the processor, and its commands.
func reportCost(b *testing.B, server *redisproc.Server, each int, work func()) {
	b.Helper()
	before, processor := costOf(b, server), processorOf(b, server)
	b.ResetTimer()
	for i := 0; i < b.N; i += each {
		work()
	}
	b.StopTimer()
	after, done := costOf(b, server), float64((b.N+each-1)/each*each)
	b.ReportMetric((after["evalsha"].usec-before["evalsha"].usec)/done, "server-us/op")
	b.ReportMetric((processorOf(b, server)-processor)/done, "server-cpu-us/op")
	b.ReportMetric(float64(commandsOf(after)-commandsOf(before))/done, "calls/op")
}

// BenchmarkWaitCost measures the server's cost of the scripts of a pass, and counts their commands. A pass is a release with waiters, the acquisition of the woken waiter, and the denial of
// the owner that waits again.
func BenchmarkWaitCost(b *testing.B) {
	for _, what := range []string{"denied-new", "denied-known", "pass"} {
		b.Run("op="+what, func(b *testing.B) {
			server := redisproc.Start(b)
			x := newPasses(b, server)
			x.begin()
			run, each := x.pass, 1
			switch what {
			case "denied-known":
				run, each = x.ask, costBatch
			case "denied-new":
				run, each = x.enter, costBatch
			}
			run()
			reportCost(b, server, each, run)
		})
	}
}

// The scripts of a pass run few commands.
func TestCommandsOfAPass(t *testing.T) {
	server := redisproc.Start(t)
	x := newPasses(t, server)
	x.begin()
	x.pass() // the server learns the scripts
	count := func(run func()) int {
		before := commandsOf(costOf(t, server))
		run()
		return commandsOf(costOf(t, server)) - before - 1 // INFO
	}
	// The life of the keys and of an entry is extended now and then, and a waiter may be late on a busy machine, which
	// takes further commands. So the least of some turns counts.
	costs := make(map[string]int)
	for range 10 {
		from, to := x.waiter(x.turn%2), x.waiter((x.turn+1)%2)
		for _, step := range []struct {
			what string
			run  func()
		}{
			{"release", func() { x.run(wire.Released, x.release(from)) }},
			{"acquire", func() { x.run(wire.Granted, x.acquire(to)) }},
			{"queue", func() { x.run(wire.Denied, x.acquire(from)) }},
			{"ask again", func() { x.run(wire.Denied, x.acquire(from)) }},
		} {
			cost := count(step.run)
			costs[step.what] = min(cost, cmp.Or(costs[step.what], cost))
		}
		x.turn++
	}
	for what, most := range map[string]int{"release": 10, "acquire": 10, "queue": 10, "ask again": 8} {
		assert.LessOrEqual(t, costs[what], most, what)
		assert.GreaterOrEqual(t, costs[what], 5, what)
	}
	const turns = 64
	each := float64(count(func() {
		for range turns {
			x.pass()
		}
	})) / turns
	t.Logf("%v, %.1f together", costs, each)
	require.LessOrEqual(t, each, 31.0)
}

// commandsOf returns how many commands scripts have run. It counts the clients' own as well, if they are of the
// same kind.
func commandsOf(costs map[string]cost) (calls int) {
	for name, stats := range costs {
		if !slices.Contains([]string{"evalsha", "eval", "hello", "ping", "client|setinfo", "subscribe"}, name) {
			calls += stats.calls
		}
	}
	return calls
}

// passes are two waiters that pass a lock to each other.
type passes struct {
	testing.TB
	node   *redisNode
	limits wire.Limits
	turn   int
	fresh  int
}

func newPasses(b testing.TB, server *redisproc.Server) *passes {
	b.Helper()
	x := &passes{TB: b, limits: wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}}
	x.node = costNode(b, server, x.limits)
	inbox, err := x.node.Listen(context.Background(), "6CXZKXDRDNPVLCWLEUMJ3GMSNH", false, func(wire.Message) {})
	require.NoError(b, err)
	b.Cleanup(func() { _ = inbox.Close() })
	return x
}

// waiter returns a waiter. Its ids have the usual length.
func (x *passes) waiter(number int) wire.Waiter {
	return wire.Waiter{ID: wire.WaiterID(fmt.Sprint("6CXZKXDRDNPVLCWLEUMJ3GMSNH:", 100000+number), 50*time.Millisecond), Ticket: time.Now().UnixMicro(), Keep: 4 * time.Second}
}

func (x *passes) acquire(w wire.Waiter) wire.Op {
	return wire.Op{
		Kind: wire.Acquire, Names: []string{"a"}, Owner: w.ID + "'s", TTL: 10 * time.Second, Limits: x.limits, Fair: true, Waiter: w,
		Token: uint64(time.Now().UnixMicro()),
	}
}

func (x *passes) release(w wire.Waiter) wire.Op {
	return wire.Op{Kind: wire.Release, Names: []string{"a"}, Owner: w.ID + "'s", Waiter: wire.Waiter{ID: w.ID}}
}

// run runs operations together.
func (x *passes) run(want wire.Outcome, ops ...wire.Op) {
	replies := make([]wire.Reply, len(ops))
	x.node.Do(context.Background(), ops, replies)
	for _, r := range replies {
		require.NoError(x, r.Err)
		require.Equal(x, want, r.Outcome)
	}
}

// begin lets the first waiter take the lock, and the second one queue.
func (x *passes) begin() {
	x.run(wire.Granted, x.acquire(x.waiter(0)))
	x.run(wire.Denied, x.acquire(x.waiter(1)))
}

// pass passes the lock to the other waiter. The first one queues again.
func (x *passes) pass() {
	from, to := x.waiter(x.turn%2), x.waiter((x.turn+1)%2)
	x.run(wire.Released, x.release(from))
	x.run(wire.Granted, x.acquire(to))
	x.run(wire.Denied, x.acquire(from))
	x.turn++
}

// ask repeats the attempt of a waiter in the queue.
func (x *passes) ask() {
	ops := make([]wire.Op, costBatch)
	for i := range ops {
		ops[i] = x.acquire(x.waiter(1))
	}
	x.run(wire.Denied, ops...)
}

// enter adds new waiters.
func (x *passes) enter() {
	ops := make([]wire.Op, costBatch)
	for i := range ops {
		x.fresh++
		ops[i] = x.acquire(x.waiter(1 + x.fresh))
	}
	x.run(wire.Denied, ops...)
}

// processorOf returns the processor time that a server has used so far, in microseconds.
func processorOf(b *testing.B, server *redisproc.Server) (us float64) {
	b.Helper()
	info, err := server.Command("INFO", "cpu")
	require.NoError(b, err)
	for line := range strings.Lines(info) {
		for _, part := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), part); ok {
				seconds, err := strconv.ParseFloat(text, 64)
				require.NoError(b, err)
				us += seconds * 1e6
			}
		}
	}
	return us
}

// costNode returns a node that is connected and open.
func costNode(b testing.TB, server *redisproc.Server, limits wire.Limits) *redisNode {
	b.Helper()
	const patient = time.Minute // costs are counted, so a busy machine only takes longer
	n, err := newRedis(With(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ConnWriteTimeout: patient, Dialer: net.Dialer{Timeout: patient},
	}))
	require.NoError(b, err)
	b.Cleanup(func() { _ = n.Close() })
	replies := make([]wire.Reply, 1)
	n.Do(context.Background(), []wire.Op{{Kind: wire.Mark, Limits: limits}}, replies)
	require.NoError(b, replies[0].Err)
	n.Do(context.Background(), []wire.Op{{Kind: wire.Open, Limits: limits, Marker: replies[0].Marker}}, replies)
	require.Equal(b, wire.Granted, replies[0].Outcome)
	return n
}

type cost struct {
	calls int
	usec  float64
}

var costLine = regexp.MustCompile(`^cmdstat_([a-z|]+):calls=(\d+),usec=(\d+)`)

// costOf returns the server's total cost of each command so far.
func costOf(b testing.TB, server *redisproc.Server) map[string]cost {
	b.Helper()
	info, err := server.Command("INFO", "commandstats")
	require.NoError(b, err)
	costs := make(map[string]cost)
	for line := range strings.Lines(info) {
		if m := costLine.FindStringSubmatch(line); m != nil {
			calls, _ := strconv.Atoi(m[2])
			usec, _ := strconv.ParseFloat(m[3], 64)
			costs[m[1]] = cost{calls, usec}
		}
	}
	return costs
}
