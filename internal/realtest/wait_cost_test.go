//go:build unix

package realtest_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestRealWaitersPollRarely measures the load of 200 waiters for a lock that stays held.
func TestRealWaitersPollRarely(t *testing.T) {
	// Each waiter asks the nodes about once a second, so the span must be a few seconds.
	span := longer(4*time.Second, 20*time.Second)
	for what, processes := range map[string]int{"in one process": 1, "in 20 processes": 20} {
		t.Run(what, func(t *testing.T) {
			c := startCluster(t, 5)
			var renewals atomic.Int64
			held := acquire(t, c.client(func(cfg *quorumlock.Config) {
				cfg.Hooks.Renewed = func(quorumlock.RenewedEvent) { renewals.Add(1) }
			}).RedLock("job"))
			var waiting []*child
			for range processes {
				p := c.worker(task{Name: "job", Clients: 1, Workers: 200 / processes})
				p.start(t)
				waiting = append(waiting, p)
			}
			c.queued(processes)       // Only the first waiter of each process is in the queues of the nodes.
			<-time.After(time.Second) // By now the others are in the local queues.

			used := func() (all time.Duration) {
				for _, p := range waiting {
					all += p.cpu(t)
				}
				return all
			}
			before, cpuBefore, renewed := c.spent(), used(), renewals.Load()
			<-time.After(span)
			cpu := used() - cpuBefore
			commands, messages, took := c.spent().since(before)
			commands -= int(renewals.Load() - renewed) // These are commands of the holder.
			rate := float64(commands) / took.Seconds()
			core := 100 * cpu.Seconds() / took.Seconds()
			t.Logf("200 waiters %s for %v: on the busiest node %d commands, %.2f per second, and %d messages; CPU of all processes: %v, %.2f%% of a core",
				what, took.Round(time.Millisecond), commands, rate, messages, cpu, core)
			require.LessOrEqual(t, rate, 2*float64(processes), "commands per second on a node")
			require.Less(t, core, 2*float64(processes), "percent of a core")
			require.NoError(t, held.Err())
			require.NoError(t, held.Release(t.Context()))
			accounts := stop(t, waiting...)
			require.Len(t, accounts, 200)
		})
	}
}

// TestRealCommandsPerTurn counts the commands of one turn: a release, the attempt of the woken waiter, and the attempt
// with which the last holder joins the queue again.
//
// On a busy machine the woken waiter may be so late that the next one makes its attempt too. So one good measurement of
// three is enough.
func TestRealCommandsPerTurn(t *testing.T) {
	const most = 4
	for what, clients := range map[string]int{"2 clients": 1, "20 clients": 10} {
		t.Run(what, func(t *testing.T) {
			bestOfThree(t, func() (float64, bool) {
				each := measureTurns(t, what, clients)
				return each, each <= most
			}, "at most %d commands per turn on a node", most)
		})
	}
}

// measureTurns returns the number of commands per turn on the busiest node, without polls.
func measureTurns(t *testing.T, what string, clients int) float64 {
	t.Helper()
	c, dir := startCluster(t, 5), t.TempDir()
	all := c.inTurns(task{Name: "job", Clients: clients, Workers: 1, Hold: 5 * time.Millisecond, Trace: dir})
	awaitSections(t, dir, 4*clients) // Every client has had its turns.
	before := c.spent()
	awaitSections(t, dir, 4*clients+longer(250, 2500))
	after := c.spent()
	stop(t, all...)
	turns := 0
	for _, s := range sectionsIn(t, dir) {
		if s.Had >= before.at && s.Had < after.at {
			turns++
		}
	}
	require.Greater(t, turns, 50)
	commands, messages, took := after.since(before)
	t.Logf("%s: %d turns in %v; on the busiest node %.2f commands per turn, and %.2f messages",
		what, turns, took.Round(time.Millisecond), float64(commands)/float64(turns), float64(messages)/float64(turns))
	// Independent of turns, each waiter polls about once a second.
	commands -= 2 * clients * int(took.Seconds())
	each := float64(commands) / float64(turns)
	t.Logf("%.2f commands per turn without polls", each)
	return each
}

// TestRealWakeLatencyBetweenProcesses measures the time from the start of a release to the next
// client's grant. The unit is a round trip. One round trip releases the lock and wakes the waiter,
// and the second one is the waiter's attempt.
//
// A busy machine makes some of these times long, and a fault of the library all of them. So one good measurement of
// three is enough.
func TestRealWakeLatencyBetweenProcesses(t *testing.T) {
	for _, net := range []struct {
		what    string
		way     time.Duration
		clients int
		most    float64
	}{
		{"2 clients on nodes 10 ms away", 5 * time.Millisecond, 1, 2.5},
		{"20 clients on nodes 10 ms away", 5 * time.Millisecond, 10, 2.5},
		// Without latency, the processor time counts: two operations, each of which does more than the probe. On a
		// busy machine they wait for each other.
		{"2 clients, all on this machine", 0, 1, 5},
	} {
		t.Run(net.what, func(t *testing.T) {
			bestOfThree(t, func() (float64, bool) {
				ratio := measureHandovers(t, net.way, net.clients)
				return ratio, ratio <= net.most
			}, "at most %.1f round trips from a release to the next grant, at the median", net.most)
		})
	}
}

// measureHandovers returns the median number of round trips from a release to the next grant.
func measureHandovers(t *testing.T, way time.Duration, clients int) float64 {
	t.Helper()
	c, dir := startCluster(t, 5), t.TempDir()
	all := c.inTurns(task{
		Name: "job", Clients: clients, Workers: 1, Hold: inLine + 4*way, Pause: inLine / 2,
		Far: way, Probe: true, Trace: dir,
	})
	for sections := 0; ; { // Continue until there are enough for a median.
		sections += 10
		awaitSections(t, dir, sections)
		if delays, _ := handovers(sectionsIn(t, dir), inLine+4*way); len(delays) >= longer(20, 200) {
			break
		}
	}
	stop(t, all...)
	delays, trips := handovers(sectionsIn(t, dir), inLine+4*way)
	require.Greater(t, len(delays), 10)
	trip, delay := quantile(trips, 0.5), quantile(delays, 0.5)
	ratio := float64(delay) / float64(trip)
	t.Logf("%d turns: %v from release to grant (90%%: %v, all: %v); one round trip: %v (90%%: %v): %.2f round trips",
		len(delays), delay, quantile(delays, 0.9), quantile(delays, 1), trip, quantile(trips, 0.9), ratio)
	return ratio
}

// inTurns starts two processes with the same task.
func (c *cluster) inTurns(w task) []*child {
	t := c.t.(*testing.T)
	t.Helper()
	all := []*child{c.worker(w), c.worker(w)}
	for _, p := range all {
		p.start(t)
	}
	return all
}

// inLine is how long a client needs at most to join the queues without a fault. It excludes the latency to the
// nodes.
const inLine = 5 * time.Millisecond

// handovers returns the times from the release of one client to the grant of another. The next
// client must have waited for some time by then. It also returns the round trips of the probes.
func handovers(sections []section, waited time.Duration) (delays, trips []time.Duration) {
	for i, s := range sections {
		if s.RoundTrip > 0 {
			trips = append(trips, s.RoundTrip)
		}
		if i == 0 {
			continue
		}
		last := sections[i-1]
		if s.Worker != last.Worker && s.Asked < last.Gave-waited {
			delays = append(delays, s.Had-last.Gave)
		}
	}
	return delays, trips
}
