package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/cmd/internal/report"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

const topHelp = `Shows locks with their holders, purposes, ages, nodes and waiters, and the state of the
nodes. It changes nothing. 'watch quorumlock top' repeats it.

Without names it searches the nodes' keys for locks, up to --scan keys of each node. For
that the user in the address needs two more commands than programs that take locks: +scan
+hlen. Without these rights, give the names. A key counts as a lock if it is a hash of one
field that expires, and the field looks like an owner's id.

  NODES   the number of nodes on which the holder has the lock
  TTL     how long enough nodes keep the lock without renewal
  HELD    how long it has been held, by the clock of the holder; unknown of a holder
          without a token, such as a client of Redisson
  WAIT    the number of waiters: each client counts once, and each of its readers. For a
          semaphore, the waiters for any permit

The exit code is 0, or 121 if too few nodes answered. --json prints, for scripts:

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
     "ttl_ms":     how long enough nodes keep it without renewal; -1 for ever
     "backing":    the number of nodes on which the owner has it
     "waiters":    the number of waiters; at most 100 are counted
   }]}
`

const defaultScan = 100000

func topCommand(a *app) *cobra.Command {
	var asJSON bool
	var scan int
	c := &cobra.Command{
		Use:   "top [KEY...]",
		Short: "Show the locks and the nodes",
		Long:  topHelp,
		Example: `  quorumlock top --nodes a:6379,b:6379,c:6379
  quorumlock top --json | jq '.locks[] | select(.waiters > 0)'`,
		Args: arguments(cobra.ArbitraryArgs),
		RunE: func(c *cobra.Command, keys []string) error {
			if len(keys) > 0 && !c.Flags().Changed("scan") {
				scan = 0
			}
			switch {
			case scan < 0:
				return wrongFlag(c, "--scan %d is negative", scan)
			case scan == 0 && len(keys) == 0:
				return wrongFlag(c, "--scan 0 needs the names of locks")
			}
			return a.top(c, asJSON, scan, keys)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, as described above")
	c.Flags().IntVar(&scan, "scan", defaultScan,
		"search this number of `keys` of each node for locks; 0 for none, which is the default if names are given")
	return c
}

func (a *app) top(c *cobra.Command, asJSON bool, scan int, keys []string) error {
	watcher, err := a.watcher(c, keys, scan)
	if err != nil {
		return err
	}
	defer watcher.Close()
	facts := watcher.Look(c.Context())
	if err := c.Context().Err(); err != nil {
		return err
	}
	top := report.NewTop(time.Now(), facts, keys)
	printed := top.String()
	if asJSON {
		var w strings.Builder
		err = text.PrintJSON(&w, top)
		printed = w.String()
	}
	return cmp.Or(err, a.print(printed, top.Answered < top.Need))
}
