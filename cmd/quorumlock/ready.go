package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/quorum"
)

const readyHelp = `Exits with 0 when enough nodes give locks, and with 121 otherwise: for probes, and between
the steps of a rolling restart. A node gives locks if it answers, can be used, and has
recovered for as long as --recovery says.

It takes no lock. But as any attempt at a lock does, it makes a node that is new, or has
lost its memory, begin its recovery: so that ends even where no program asks for a lock.
With --wait it asks again until enough nodes are ready.
`

const readyPoll = 250 * time.Millisecond

func readyCommand(a *app) *cobra.Command {
	var multi bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "ready",
		Short: "Check whether enough nodes give locks",
		Long:  readyHelp,
		Example: `  quorumlock ready --nodes a:6379,b:6379,c:6379
  quorumlock ready --multi --wait 1m && systemctl restart redis`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if wait < 0 {
				return wrongFlag(c, "--wait %v is negative", wait)
			}
			return a.ready(c, multi, wait)
		},
	}
	c.Flags().BoolVar(&multi, "multi", false, "require all nodes instead of a majority")
	c.Flags().DurationVar(&wait, "wait", 0, "how long to wait for enough nodes (default: ask once)")
	return c
}

func (a *app) ready(c *cobra.Command, multi bool, wait time.Duration) error {
	cfg, closeNodes, err := a.operator(c)
	if err != nil {
		return err
	}
	defer closeNodes()
	need := quorum.Majority().Need(len(cfg.Nodes))
	if multi {
		need = len(cfg.Nodes)
	}
	deadline, cancel := context.WithTimeout(c.Context(), wait)
	defer cancel()
	for last := wait == 0; ; {
		nodes, err := admin.Look(c.Context(), cfg)
		if err != nil {
			return configProblem(c, err)
		}
		closed := slices.DeleteFunc(nodes, func(n admin.NodeReport) bool { return n.State == admin.Open })
		if ready := len(cfg.Nodes) - len(closed); ready >= need || last {
			return a.sayReady(closed, ready, len(cfg.Nodes), need)
		}
		select {
		case <-time.After(readyPoll):
		case <-deadline.Done():
			last = true
		}
		if err := c.Context().Err(); err != nil {
			return err
		}
	}
}

func (a *app) sayReady(closed []admin.NodeReport, ready, total, need int) error {
	a.printNodes(closed)
	said := fmt.Sprintf("%d of %d nodes give locks (%d needed)", ready, total, need)
	if ready < need {
		return &exit.Error{Code: exit.NoQuorum, Err: errors.New("not ready: " + said)}
	}
	fmt.Fprintln(a.stdout, said)
	return nil
}
