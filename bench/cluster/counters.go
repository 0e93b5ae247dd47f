package cluster

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Counters are what one server has done since it started.
type Counters struct {
	// CPU is what the process has used.
	CPU time.Duration
	// Calls are the calls of each command, from clients and from within scripts.
	Calls map[string]int64
	run   string
}

// Snapshot is what the servers had done at about one time; nil for one that did not answer.
type Snapshot []*Counters

const snapshotTimeout = 2 * time.Second

// Snapshot asks all servers.
func (c *Cluster) Snapshot(ctx context.Context) Snapshot {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	s := make(Snapshot, len(c.servers))
	var all sync.WaitGroup
	for i, server := range c.servers {
		all.Go(func() { s[i] = ask(ctx, server) })
	}
	all.Wait()
	return s
}

// ask returns nil for a server that does not answer.
func ask(ctx context.Context, s Server) *Counters {
	var text strings.Builder
	for _, section := range []string{"server", "cpu", "commandstats"} {
		part, err := s.Command(ctx, "INFO", section)
		if err != nil {
			return nil
		}
		text.WriteString(part + "\n")
	}
	return parseInfo(text.String())
}

// own is how many calls of INFO there are between two snapshots because of them: what
// commandstats says does not include itself.
const own = 3

// parseInfo reads what INFO says.
func parseInfo(text string) *Counters {
	c := &Counters{Calls: map[string]int64{}}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "run_id":
			c.run = value
		case name == "used_cpu_sys" || name == "used_cpu_user":
			seconds, _ := strconv.ParseFloat(value, 64)
			c.CPU += time.Duration(seconds * float64(time.Second))
		case strings.HasPrefix(name, "cmdstat_"):
			command, _, _ := strings.Cut(strings.TrimPrefix(name, "cmdstat_"), "|")
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseInt(calls, 10, 64)
			c.Calls[command] += n
		}
	}
	return c
}

// Work is what the servers did between two snapshots, those left out that did not answer, or
// had started anew.
type Work struct {
	// Servers is how many are counted.
	Servers int
	CPU     time.Duration
	// Commands counts all commands, those within scripts too; Scripts the calls of scripts;
	// Sent what clients sent: scripts, and commands outside of them.
	Commands, Scripts, Sent int64
}

var scriptCalls = map[string]bool{
	"eval": true, "evalsha": true, "eval_ro": true, "evalsha_ro": true, "fcall": true, "fcall_ro": true,
}

// outside are commands that no script calls.
var outside = map[string]bool{
	"ping": true, "hello": true, "auth": true, "select": true, "client": true, "script": true, "command": true,
	"subscribe": true, "unsubscribe": true, "psubscribe": true, "ssubscribe": true, "multi": true, "exec": true,
}

// Since is what was done since an earlier snapshot. The plain commands are those that
// clients send, and their scripts do not call.
func (s Snapshot) Since(before Snapshot, plain []string) (w Work) {
	sent := map[string]bool{}
	for _, p := range plain {
		sent[p] = true
	}
	for i, now := range s {
		then := before[i]
		if now == nil || then == nil || now.run != then.run {
			continue
		}
		w.Servers++
		w.CPU += now.CPU - then.CPU
		for command, n := range now.Calls {
			n -= then.Calls[command]
			if command == "info" {
				n -= own
			}
			w.Commands += n
			if scriptCalls[command] {
				w.Scripts += n
			}
			if scriptCalls[command] || outside[command] || sent[command] {
				w.Sent += n
			}
		}
	}
	return w
}
