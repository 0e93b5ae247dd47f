package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/cmd/internal/report"
)

const statusHelp = `Asks every node for what has a name, and changes nothing: a lock with its holder or its
readers, the held permits of a semaphore, and a latch. They are independent, but often of
the same name by mistake. It also shows other lists of nodes in use than --nodes.

With several keys, each is a separate name. For scripts, quorumlock top --json KEY prints
the lock and its state:

  held       an owner has it on enough nodes
  free       a quorum of nodes has no holder, and nothing else of that name is held or set
  in_use     the lock itself has no holder, but permits of a semaphore of that name are
             held, or a latch is set
  recovering neither: too many nodes recover for a new holder; an existing holder keeps it
  partial    neither: owners have it on some nodes only, or the nodes that know more do
             not answer
  wrong_type a key of another type has this name on so many nodes that the lock cannot be
             acquired
  no_quorum  too few nodes answered to tell

The exit code is 0 if the state is known, and 121 if too few nodes answered.
`

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status KEY [KEY...]",
		Short: "Show what has a name, node by node",
		Long:  statusHelp,
		Args:  arguments(named),
		RunE:  a.status,
	}
}

func (a *app) status(c *cobra.Command, keys []string) error {
	watcher, err := a.watcher(c, keys, 0)
	if err != nil {
		return err
	}
	defer watcher.Close()
	facts := watcher.Look(c.Context())
	status := report.NewStatus(time.Now(), facts, keys)
	lists := report.OtherLists(facts, watcher.Lists(c.Context()))
	if err := c.Context().Err(); err != nil {
		return err
	}
	return a.print(status.String()+lists, slices.ContainsFunc(status, func(n report.Name) bool { return n.State == report.NoQuorum }))
}
