package cluster

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Counters count the work of one server since its start.
type Counters struct {
	// CPU is the CPU time of the process.
	CPU time.Duration
	// Calls counts the calls of each command, from clients and from scripts.
	Calls map[string]int64
	// Transfers counts reads from clients and writes to them, and Wakeups how often the first thread slept.
	Transfers, Wakeups int64
	version            string
}

// Snapshot is the counters of all servers at about one time; nil for a server that did not answer.
type Snapshot []*Counters

// The time that a server has to answer: much on a busy machine, and little if some servers hang.
const (
	answerTimeout = 20 * time.Second
	hungTimeout   = 2 * time.Second
)

// Snapshot asks all servers.
func (c *Cluster) Snapshot(ctx context.Context) Snapshot {
	patience := answerTimeout
	if c.hangs {
		patience = hungTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := make(Snapshot, len(c.servers))
	var all sync.WaitGroup
	for i, server := range c.servers {
		all.Go(func() {
			if text, err := server.Do(ctx, "INFO", "all"); err == nil {
				s[i] = parseInfo(text)
			}
		})
	}
	all.Wait()
	return s
}

// own is the number of INFO calls that a pair of snapshots itself causes: commandstats does not include the current
// call.
const own = 1

func parseInfo(text string) *Counters {
	c := &Counters{Calls: map[string]int64{}}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "redis_version" || name == "valkey_version":
			c.version = name[:strings.IndexByte(name, '_')] + " " + value
		case name == "used_cpu_sys" || name == "used_cpu_user":
			seconds, _ := strconv.ParseFloat(value, 64)
			c.CPU += time.Duration(seconds * float64(time.Second))
		case name == "total_reads_processed" || name == "total_writes_processed":
			n, _ := strconv.ParseInt(value, 10, 64)
			c.Transfers += n
		case name == "process_id":
			c.Wakeups = sleeps(value)
		case strings.HasPrefix(name, "cmdstat_"):
			command, _, _ := strings.Cut(strings.TrimPrefix(name, "cmdstat_"), "|")
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseInt(calls, 10, 64)
			c.Calls[command] += n
		}
	}
	return c
}

// sleeps counts how often the first thread of a process slept until something happened, which Linux counts.
func sleeps(pid string) (n int64) {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	if _, after, found := strings.Cut(string(text), "\nvoluntary_ctxt_switches:"); found {
		line, _, _ := strings.Cut(after, "\n")
		n, _ = strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	}
	return n
}

// Work is the work of the servers between two snapshots. It omits servers that did not answer.
type Work struct {
	// Servers is the number of counted servers, and Version names their program.
	Servers int
	Version string
	CPU     time.Duration
	// Commands counts all commands, including those in scripts, and Scripts the calls of scripts. Sent counts the
	// commands of clients: scripts, and commands outside of them.
	Commands, Scripts, Sent int64
	// Transfers counts reads from clients and writes to them, and Wakeups how often a server's first thread slept.
	Transfers, Wakeups int64
}

var scriptCalls = map[string]bool{
	"eval": true, "evalsha": true, "eval_ro": true, "evalsha_ro": true, "fcall": true, "fcall_ro": true,
}

// outside are commands that no script calls.
var outside = map[string]bool{
	"ping": true, "hello": true, "auth": true, "select": true, "client": true, "script": true, "command": true,
	"subscribe": true, "unsubscribe": true, "psubscribe": true, "ssubscribe": true, "multi": true, "exec": true,
}

// Since returns the work since an earlier snapshot. The plain commands are the commands that clients send outside
// of their scripts.
func (s Snapshot) Since(before Snapshot, plain []string) (w Work) {
	for i, now := range s {
		then := before[i]
		if now == nil || then == nil {
			continue
		}
		w.Servers++
		w.Version = now.version
		w.CPU += now.CPU - then.CPU
		w.Transfers, w.Wakeups = w.Transfers+now.Transfers-then.Transfers, w.Wakeups+now.Wakeups-then.Wakeups
		for command, n := range now.Calls {
			n -= then.Calls[command]
			if command == "info" {
				n -= own
			}
			w.Commands += n
			if scriptCalls[command] {
				w.Scripts += n
			}
			if scriptCalls[command] || outside[command] || slices.Contains(plain, command) {
				w.Sent += n
			}
		}
	}
	return w
}
