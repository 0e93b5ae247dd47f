//go:build unix

package realtest_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The tests in wait_*_test.go measure what waiting costs and how fast waiters are served. They run child processes, and
// log their measurements.

// fromClients are the commands that clients send to a node. Scripts run all other commands, except
// keep-alives (PING) and the test's own (INFO, ZCARD, CLIENT LIST).
var fromClients = []string{"evalsha", "eval", "hello", "auth", "subscribe", "unsubscribe", "client|kill", "client|setname", "client|setinfo", "client|tracking", "client|id", "quit"}

// spent is the total work of the nodes so far. For each node it has the commands of clients and
// the messages that scripts have published.
type spent struct {
	at                 time.Duration
	commands, messages []int
}

func (c *cluster) spent() spent {
	c.t.Helper()
	s := spent{at: now()}
	for i := range c.servers {
		stats := c.commandStats(i)
		commands := 0
		for _, name := range fromClients {
			commands += stats[name]
		}
		s.commands = append(s.commands, commands)
		s.messages = append(s.messages, stats["publish"])
	}
	return s
}

// since returns the work since an earlier measurement on the busiest node.
func (s spent) since(before spent) (commands, messages int, span time.Duration) {
	for i := range s.commands {
		commands = max(commands, s.commands[i]-before.commands[i])
		messages = max(messages, s.messages[i]-before.messages[i])
	}
	return commands, messages, s.at - before.at
}

// commandStats returns how often a server has run each command.
func (c *cluster) commandStats(i int) map[string]int {
	c.t.Helper()
	stats := make(map[string]int)
	for line := range strings.Lines(c.command(i, "INFO", "commandstats")) {
		name, values, ok := strings.Cut(line, ":calls=")
		if !ok {
			continue
		}
		n, _, _ := strings.Cut(values, ",")
		calls, err := strconv.Atoi(n)
		require.NoError(c.t, err, "%s", line)
		stats[strings.TrimPrefix(name, "cmdstat_")] = calls
	}
	return stats
}

// queued requires that the job's queue on each node soon has the given number of entries.
func (c *cluster) queued(want int) {
	c.t.Helper()
	entries := func() (all []string) {
		for i := range c.servers {
			all = append(all, c.command(i, "ZCARD", "quorumlock:queue:{job}"))
		}
		return all
	}
	eventually(c.t, 20*time.Second, func() bool {
		return !slices.ContainsFunc(entries(), func(n string) bool { return n != strconv.Itoa(want) })
	}, "the queue of every node has %d entries; they have %v", want, entries)
}

// bestOfThree repeats a measurement up to three times until it is good. Otherwise the test fails, or is inconclusive if the
// machine was too busy to measure.
func bestOfThree(t *testing.T, measure func() (value float64, good bool), must string, args ...any) {
	t.Helper()
	strain := testkit.MeasureStrain(t)
	var values []float64
	for range 3 {
		value, good := measure()
		if good {
			return
		}
		values = append(values, value)
	}
	strain.Missing(t, must+"; measured: %.2f", append(args, values)...)
}

// quantile returns a quantile of the durations. It sorts them in place.
func quantile(all []time.Duration, part float64) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, int(part*float64(len(all))))]
}
