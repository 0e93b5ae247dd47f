package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quorumlock/quorumlock/cmd/internal/live"
	"github.com/quorumlock/quorumlock/cmd/internal/report"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
)

const topHelp = `Shows locks with their holders, purposes, ages, nodes and waiters, and the state of the
nodes. On a terminal it repeats until Ctrl-C. With --once, or if the output is no
terminal, it prints plain text once. It changes nothing.

Without names it searches the nodes' keys for locks: --scan keys of each node for each
picture, continuing where it stopped. For that the user in the address needs two more
commands than programs that take locks: +scan +hlen. Without these rights, give the names.
A key counts as a lock if it is a hash of one field that expires, and the field looks like
an owner's id.

  NODES   the number of nodes on which the holder has the lock
  TTL     how long enough nodes keep the lock without renewal
  HELD    how long it has been held, by the clock of the holder. ">" marks a lower bound,
          for a holder without a token, such as a client of Redisson
  WAIT    the number of waiters: each client counts once, and each of its readers. For a
          semaphore, the waiters for any permit

With --once the exit code is 0, or 121 if too few nodes answered. --json prints, for
scripts:

  {"need":     the number of nodes that decide
   "answered": the number of nodes that answered
   "complete": whether all keys were searched, or none had to be
   "nodes": [{
     "node":       the node's name
     "error":      why it does not answer; "" if it does
     "latency_ms": the time that an answer took
     "recovering_ms": how long it gives no new locks, because it is new or has lost its
                      memory; 0 if it gives locks
     "locks":      the number of these locks on it
     "note":       missing information, and anything unusual
   }],
   "locks": [{
     "key":        the lock's name, for status and release
     "semaphore":  the semaphore, if the lock is a permit of one
     "permit":     the number of that permit; -1 if it is none
     "state":      as in status
     "owner":      its holder, or the owner with the most nodes if not held; "" for none
     "holder":     where the owner runs, as it says: host/process; "" if unknown
     "purpose":    the purpose, as the owner says
     "readers":    the number of holders, if they are readers
     "since":      the begin of the hold (RFC 3339); "" if unknown
     "held_ms":    the time since then
     "held_at_least": whether it may be longer
     "ttl_ms":     how long enough nodes keep it without renewal; -1 for ever
     "backing":    the number of nodes on which the owner has it
     "waiters":    the number of waiters; at most 100 are counted
   }]}
`

type topFlags struct {
	once, json bool
	interval   time.Duration
	scan       int
}

// minInterval keeps a view from loading the nodes.
const minInterval = 100 * time.Millisecond

func topCommand(a *app) *cobra.Command {
	var f topFlags
	c := &cobra.Command{
		Use:   "top [KEY...]",
		Short: "Watch the locks and the nodes",
		Long:  topHelp,
		Example: `  quorumlock top --nodes a:6379,b:6379,c:6379
  quorumlock top nightly-report --once
  quorumlock top --once --json | jq '.locks[] | select(.waiters > 0)'`,
		Args: arguments(cobra.ArbitraryArgs),
		RunE: func(c *cobra.Command, keys []string) error {
			return a.top(c, f, keys)
		},
	}
	c.Flags().BoolVar(&f.once, "once", false, "look once, and print plain text")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON, as described above; only with --once")
	c.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "how long to wait between two looks")
	c.Flags().IntVar(&f.scan, "scan", defaultScan,
		"search this number of `keys` of each node for locks at a time; 0 for none, which is the default if names are given")
	return c
}

// checked validates the flags and sets defaults.
func (f topFlags) checked(c *cobra.Command, keys []string) (topFlags, error) {
	if len(keys) > 0 && !c.Flags().Changed("scan") {
		f.scan = 0
	}
	switch {
	case f.json && !f.once:
		return f, wrongFlag(c, "--json is for --once")
	case f.interval < minInterval:
		return f, wrongFlag(c, "--interval %v is under %v", f.interval, minInterval)
	case f.scan < 0:
		return f, wrongFlag(c, "--scan %d is negative", f.scan)
	case f.scan == 0 && len(keys) == 0:
		return f, wrongFlag(c, "--scan 0 needs the names of locks")
	default:
		return f, nil
	}
}

func (a *app) top(c *cobra.Command, flags topFlags, keys []string) error {
	f, err := flags.checked(c, keys)
	if err != nil {
		return err
	}
	watcher, err := a.watcher(c, keys, f.scan)
	if err != nil {
		return err
	}
	defer watcher.Close()
	t := &report.Topper{Given: keys}
	facts := watcher.Look(c.Context())
	if err := c.Context().Err(); err != nil {
		return err
	}
	if len(keys) == 0 && nothingListed(facts) {
		return errors.New("the user in the addresses may not list keys: name the locks (quorumlock top KEY...), or permit it +scan +hlen")
	}
	top := t.Report(time.Now(), facts)
	if out, ok := a.stdout.(*os.File); ok && !f.once && term.IsTerminal(int(out.Fd())) {
		return live.Show(c.Context(), out, f.interval, top, func(ctx context.Context) *report.Top {
			facts := watcher.Look(ctx)
			return t.Report(time.Now(), facts)
		})
	}
	var printed strings.Builder
	if f.json {
		if err := text.PrintJSON(&printed, top); err != nil {
			return err
		}
	} else {
		printed.WriteString(strings.Join(top.Lines(report.Screen{}), "\n") + "\n")
	}
	return a.print(printed.String(), top.Answered < top.Need)
}

// nothingListed reports whether every node that could be searched denies this to the user.
func nothingListed(facts *watch.Facts) bool {
	denied := 0
	for i := range facts.Nodes {
		switch n := &facts.Nodes[i]; {
		case watch.IsDenied(n.Unlisted):
			denied++
		case n.Err == nil:
			return false
		}
	}
	return denied > 0
}
