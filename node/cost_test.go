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
)

// BenchmarkScriptCost measures what an acquisition costs the server by its own account (INFO
// commandstats). It starts with the smallest script that locks and ends with the full one. It also
// measures the parts of the full script. Known names are reused, as they are in practice. New
// names make the server create their keys.
func BenchmarkScriptCost(b *testing.B) {
	b.Run("names=known", func(b *testing.B) {
		benchmarkScriptCost(b, func(i int) string { return fmt.Sprint("lock", i%costBatch) })
	})
	b.Run("names=new", func(b *testing.B) { benchmarkScriptCost(b, func(i int) string { return fmt.Sprint("lock", i) }) })
}

// costBatch is the number of scripts that are sent at once.
const costBatch = 256

func benchmarkScriptCost(b *testing.B, nameOf func(i int) string) {
	b.Helper()
	limits := Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}
	ttl, skew := milliseconds(limits.MaxTTL), milliseconds(limits.MaxClockSkew)
	const layout = `if redis.call('HKEYS', KEYS[1])[1] then return 0 end
		redis.call('HSET', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1`
	guard := newScript("lib/recovery").source + `
		local now, differs, recovering = guard(ARGV[3], ARGV[4])
		if differs or recovering then return differs or recovering end
		`
	for _, c := range []struct{ name, source string }{
		{"script=set", `return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1`},
		{"script=lock", layout},
		{"script=lock+marker", guard + layout},
		{"script=acquire", ""}, // made below, with the fence, and what denials tell
	} {
		b.Run(c.name, func(b *testing.B) {
			server := redisproc.Start(b)
			n := costNode(b, server, limits)
			client := n.link.client
			if c.source == "" {
				c.source = n.link.writer.form(scriptForm{kind: Acquire, limits: limits, fair: true}).source
			}
			sha, err := client.Do(context.Background(), client.B().Arbitrary("SCRIPT", "LOAD", c.source).Build()).ToString()
			require.NoError(b, err)
			i := 0
			reportCost(b, server, costBatch, func() {
				cmds := make([]rueidis.Completed, 0, costBatch)
				names := make([]string, 0, costBatch)
				args := []string{"owner", ttl, ttl, skew}
				if c.name == "script=acquire" {
					args = []string{"owner", ttl, "", ""}
				}
				for j := i; j < i+costBatch; j++ {
					names = append(names, nameOf(j))
					if c.name == "script=acquire" {
						// A later token, as some names share a place.
						args[2] = strconv.FormatInt(time.Now().UnixMicro()+int64(j-i), 10)
						args[3] = strconv.FormatUint(fenceOffset(nameOf(j)), 10)
					}
					cmds = append(cmds, client.B().Arbitrary("EVALSHA", sha, "1").Keys(nameOf(j)).
						Args(slices.Clone(args)...).Build())
				}
				for _, r := range client.DoMulti(context.Background(), cmds...) {
					granted, err := r.AsInt64()
					require.NoError(b, err)
					require.EqualValues(b, 1, granted)
				}
				require.NoError(b, client.Do(context.Background(), client.B().Del().Key(names...).Build()).Error())
				i += costBatch
			})
		})
	}
}

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

// BenchmarkReleaseCost measures the server's cost of an acquisition and a release that wakes
// waiters. The cost must not depend on the number of waiters.
func BenchmarkReleaseCost(b *testing.B) {
	for _, waiters := range []int{0, 1, 2, 1000} {
		b.Run(fmt.Sprint("waiters=", waiters), func(b *testing.B) {
			server := redisproc.Start(b)
			limits := Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}
			n := costNode(b, server, limits)
			inbox, err := n.Listen(context.Background(), "c", func(Message) {})
			require.NoError(b, err)
			defer func() { _ = inbox.Close() }()
			op := Op{Kind: Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Minute, Limits: limits}
			run := func(ops ...Op) {
				for i := range ops {
					ops[i].Token = uint64(time.Now().UnixMicro())
				}
				replies := make([]Reply, len(ops))
				n.Do(context.Background(), ops, replies)
				for _, r := range replies {
					require.NoError(b, r.Err)
				}
			}
			run(op)
			for i := range waiters {
				other := op
				other.Owner, other.Waiter = "o2", Waiter{ID: fmt.Sprint("c:", i), Ticket: int64(i), Keep: time.Hour}
				run(other)
			}
			release := Op{Kind: Release, Names: op.Names, Owner: op.Owner}
			run(release)
			ops := make([]Op, 0, costBatch)
			for range costBatch / 2 {
				ops = append(ops, op, release)
			}
			reportCost(b, server, costBatch/2, func() { run(ops...) })
		})
	}
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
			{"release", func() { x.run(Released, x.release(from)) }},
			{"acquire", func() { x.run(Granted, x.acquire(to)) }},
			{"queue", func() { x.run(Denied, x.acquire(from)) }},
			{"ask again", func() { x.run(Denied, x.acquire(from)) }},
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
	node   *Redis
	limits Limits
	turn   int
	fresh  int
}

func newPasses(b testing.TB, server *redisproc.Server) *passes {
	b.Helper()
	x := &passes{TB: b, limits: Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}}
	x.node = costNode(b, server, x.limits)
	inbox, err := x.node.Listen(context.Background(), "6CXZKXDRDNPVLCWLEUMJ3GMSNH", func(Message) {})
	require.NoError(b, err)
	b.Cleanup(func() { _ = inbox.Close() })
	return x
}

// waiter returns a waiter. Its ids have the usual length.
func (x *passes) waiter(number int) Waiter {
	return Waiter{ID: WaiterID(fmt.Sprint("6CXZKXDRDNPVLCWLEUMJ3GMSNH:", 100000+number), 50*time.Millisecond), Ticket: time.Now().UnixMicro(), Keep: 4 * time.Second}
}

func (x *passes) acquire(w Waiter) Op {
	return Op{
		Kind: Acquire, Names: []string{"a"}, Owner: w.ID + "'s", TTL: 10 * time.Second, Limits: x.limits, Fair: true, Waiter: w,
		Token: uint64(time.Now().UnixMicro()),
	}
}

func (x *passes) release(w Waiter) Op {
	return Op{Kind: Release, Names: []string{"a"}, Owner: w.ID + "'s", Waiter: Waiter{ID: w.ID}}
}

// run runs operations together.
func (x *passes) run(want Outcome, ops ...Op) {
	replies := make([]Reply, len(ops))
	x.node.Do(context.Background(), ops, replies)
	for _, r := range replies {
		require.NoError(x, r.Err)
		require.Equal(x, want, r.Outcome)
	}
}

// begin lets the first waiter take the lock, and the second one queue.
func (x *passes) begin() {
	x.run(Granted, x.acquire(x.waiter(0)))
	x.run(Denied, x.acquire(x.waiter(1)))
}

// pass passes the lock to the other waiter. The first one queues again.
func (x *passes) pass() {
	from, to := x.waiter(x.turn%2), x.waiter((x.turn+1)%2)
	x.run(Released, x.release(from))
	x.run(Granted, x.acquire(to))
	x.run(Denied, x.acquire(from))
	x.turn++
}

// ask repeats the attempt of a waiter in the queue.
func (x *passes) ask() {
	ops := make([]Op, costBatch)
	for i := range ops {
		ops[i] = x.acquire(x.waiter(1))
	}
	x.run(Denied, ops...)
}

// enter adds new waiters.
func (x *passes) enter() {
	ops := make([]Op, costBatch)
	for i := range ops {
		x.fresh++
		ops[i] = x.acquire(x.waiter(1 + x.fresh))
	}
	x.run(Denied, ops...)
}

// BenchmarkManyCost measures the server's total cost for one operation of a batch. The operation
// is an acquisition with its release, or a renewal.
func BenchmarkManyCost(b *testing.B) {
	limits := Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}
	op := func(kind Kind, i int) Op {
		return Op{
			Kind: kind, Names: []string{fmt.Sprint("lock", i)}, Owner: "6CXZKXDRDNPVLCWLEUMJ3GMSNH:" + strconv.Itoa(i),
			TTL: time.Minute, Limits: limits, Fair: true,
		}
	}
	for _, what := range []string{"cycle", "renew"} {
		for _, together := range []int{1, 8, 64, 256} {
			b.Run(fmt.Sprintf("op=%s/together=%d", what, together), func(b *testing.B) {
				server := redisproc.Start(b)
				n := costNode(b, server, limits)
				var acquires, releases, renews []Op
				for i := range together {
					acquires, releases, renews = append(acquires, op(Acquire, i)), append(releases, op(Release, i)), append(renews, op(Renew, i))
				}
				replies := make([]Reply, together)
				run := func(ops []Op, want Outcome) {
					n.Do(context.Background(), ops, replies)
					for _, r := range replies {
						require.Equal(b, want, r.Outcome, "%v", r.Err)
					}
				}
				cycle := func() {
					for i := range acquires {
						acquires[i].Token = uint64(time.Now().UnixMicro())
					}
					run(acquires, Granted)
					run(releases, Released)
				}
				cycle()
				run(renews, Healed)
				if what == "cycle" {
					run(releases, Released)
				}
				reportCost(b, server, together, func() {
					if what == "cycle" {
						cycle()
					} else {
						run(renews, Granted)
					}
				})
			})
		}
	}
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
func costNode(b testing.TB, server *redisproc.Server, limits Limits) *Redis {
	b.Helper()
	const patient = time.Minute // costs are counted, so a busy machine only takes longer
	n, err := NewRedis(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ConnWriteTimeout: patient, Dialer: net.Dialer{Timeout: patient},
	})
	require.NoError(b, err)
	b.Cleanup(func() { _ = n.Close() })
	replies := make([]Reply, 1)
	n.Do(context.Background(), []Op{{Kind: Mark, Limits: limits}}, replies)
	require.NoError(b, replies[0].Err)
	n.Do(context.Background(), []Op{{Kind: Open, Limits: limits, Marker: replies[0].Marker}}, replies)
	require.Equal(b, Granted, replies[0].Outcome)
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
