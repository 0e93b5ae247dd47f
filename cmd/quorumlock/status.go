package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/cmd/internal/report"
)

const statusHelp = `Asks every node for what has a name, and changes nothing: a lock with its holder or its
readers, the held permits of a semaphore, and a latch. They are independent, but often of
the same name by mistake.

With several keys, each is a separate name. --json prints, for scripts:

  {"locks": [{
    "key":      the lock's name
    "state":    "held"       an owner has it on enough nodes
                "free"       a quorum of nodes has no holder, and nothing else of that
                             name is held or set
                "in_use"     the lock itself has no holder, but permits of a semaphore of
                             that name are held, or a latch is set
                "recovering" neither: too many nodes recover for a new holder; an existing
                             holder keeps it
                "partial"    neither: owners have it on some nodes only, or the nodes
                             that know more do not answer
                "wrong_type" a key of another type has this name on so many nodes that
                             the lock cannot be acquired
                "no_quorum"  too few nodes answered to tell
    "owner":    its holder; "" unless held; "quorumlock:readers" for readers
    "since":    the begin of the hold by its holder's clock (RFC 3339); "" if unknown
    "held_ms":  the time since then
    "held_at_least": whether it may be longer: nodes do not know it of holders that
                use Redisson
    "waiters":  the number of waiters, as for top
    "readers": [{
      "owner":  a reader
      "nodes":  the number of nodes on which it reads
      "ttl_ms": how long enough nodes keep it without renewal; -1 for ever
    }],
    "semaphore": null if no permit is held and no number was set, else {
      "permits": the number that was set; 0 if programs configure it
      "waiters": the number of waiters, as for top
      "held": [{
        "permit":   its number, from 0 on
        "state":    "held", or "partial" if its owner has it on too few nodes
        "owner", "nodes", "ttl_ms", "since", "held_ms", "held_at_least": as above
        "token":    the largest fencing token that its owner may use, or 0
      }]
    },
    "latch": null if none is set, else {
      "count":   the number to which it is set
      "counted": how many ids have counted down; it is done when these are "count" or more
      "nodes":   the number of nodes that know it
    },
    "need":     the number of nodes that decide
    "answered": the number of nodes that answered
    "nodes": [{
      "node":       the node's name
      "owner":      its holder on this node; "" for none
      "token":      the largest fencing token that the holder may use. For readers it is
                    the largest one that the node knows of. 0 if there is no holder
      "ttl_ms":     the time until it expires without renewal; -1 for never (not set
                    by this library), 0 if there is no holder
      "recovering_ms": how long the node gives no new locks, because it is new or has lost
                    its memory; counted from the first attempt at a lock, if there was
                    none yet. 0 if it gives locks
      "latency_ms": the time that the answer took
      "error":      why there was no answer; "" if there was one
    }]
  }]}

The exit code is 0 if the state is known, and 121 if it is "no_quorum".
`

func statusCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "status KEY [KEY...]",
		Short:             "Show what has a name, node by node",
		Long:              statusHelp,
		Args:              arguments(named),
		ValidArgsFunction: a.completeNames,
		RunE: func(c *cobra.Command, keys []string) error {
			return a.status(c, keys, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) status(c *cobra.Command, keys []string, asJSON bool) error {
	watcher, err := a.watcher(c, keys, 0)
	if err != nil {
		return err
	}
	defer watcher.Close()
	status := report.NewStatus(time.Now(), watcher.Look(c.Context()), keys)
	if err := c.Context().Err(); err != nil {
		return err
	}
	unknown := slices.ContainsFunc(status.Locks, func(n report.Name) bool { return n.State == report.NoQuorum })
	return a.print(status, status.String(), asJSON, unknown)
}
