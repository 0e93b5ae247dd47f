package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/node"
)

const initHelp = `Opens new nodes, so that they give locks at once. It is for the operator of the servers.
It may be repeated: if all nodes are open, it changes nothing. All nodes must answer. All
are open if the exit code is 0.

Do not use it after an accident, nor at the start of a program. A node that came back
without its memory may have forgotten locks that are still held. As long as another node
is open, init notices that, and refuses. But it cannot distinguish new nodes from nodes
that have all lost their memory. Then only waiting is safe.

Nothing breaks without init. A node that is new, or has lost its memory, gives no new
locks for --recovery, 11s by default, from the first attempt at a lock. Holders
keep their locks meanwhile, and the node then opens by itself.
`

func initCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "init",
		Short:   "Open new nodes",
		Long:    initHelp,
		Example: `  quorumlock init --nodes a:6379,b:6379,c:6379`,
		Args:    arguments(cobra.NoArgs),
		RunE:    func(c *cobra.Command, _ []string) error { return a.open(c) },
	}
}

// operator returns the configuration of the flags for package admin, with nodes of its own timeout instead of addresses:
// a client's timeout is bound to its TTL, which does not matter here.
func (a *app) operator(c *cobra.Command) (cfg quorumlock.Config, closeNodes func(), err error) {
	cfg, options, err := a.servers(c, "in-memory nodes are opened when they are made")
	if err != nil {
		return cfg, nil, err
	}
	timeout := cmp.Or(a.nodes.nodeTimeout, surveyTimeout)
	for _, opt := range options {
		opt.Timeout = cmp.Or(opt.Timeout, timeout)
		opt.ConnectTimeout = cmp.Or(opt.ConnectTimeout, timeout)
		n, err := node.New(opt)
		if err != nil {
			return cfg, nil, wrongUsage(c, err)
		}
		cfg.Nodes = append(cfg.Nodes, n)
	}
	cfg.Addresses, cfg.NodeTimeoutMax = nil, 0
	cfg.AllowEviction, cfg.AllowUnseenLosses = false, false // the nodes have them
	return cfg, func() {
		for _, n := range cfg.Nodes {
			_ = n.Close() // the report is complete by then
		}
	}, nil
}

func (a *app) open(c *cobra.Command) error {
	cfg, closeNodes, err := a.operator(c)
	if err != nil {
		return err
	}
	defer closeNodes()
	nodes, err := admin.Init(c.Context(), cfg)
	if nodes == nil {
		return configProblem(c, err)
	}
	a.printNodes(nodes)
	var left time.Duration // until the last recovery ends
	for _, n := range nodes {
		left = max(left, n.Left)
	}
	opened := func(n admin.NodeReport) bool { return n.State == admin.Opened }
	switch {
	case err == nil:
		fmt.Fprintf(a.stdout, "all %d nodes are open\n", len(nodes))
		return nil
	case errors.Is(err, admin.ErrInUse):
		return exit.Errorf(exit.NoQuorum, "nothing was opened, as not all nodes are new: those that recover may have forgotten locks that are still held. "+
			"Wait: all nodes open by themselves in %s", text.Span(left))
	case slices.ContainsFunc(nodes, opened):
		return exit.Errorf(exit.NoQuorum, "some nodes failed while the others were opened: repeat the command to see their state")
	default:
		return exit.Errorf(exit.NoQuorum, "nothing was opened, as nodes failed: fix that, and repeat the command; or wait: nodes that recover open by themselves")
	}
}

func (a *app) printNodes(nodes []admin.NodeReport) {
	for _, n := range nodes {
		fmt.Fprintf(a.stdout, "%s: %s\n", n.Node, became(n))
	}
}

func became(n admin.NodeReport) string {
	switch {
	case n.State == admin.Opened:
		return "opened"
	case n.State == admin.Open:
		return "open already"
	case n.State == admin.Recovering:
		return "recovering for another " + text.Span(n.Left)
	case errors.Is(n.Err, admin.ErrChanged):
		return "failed: the node lost its memory, or another client opened it, in the meantime"
	default:
		return "failed: " + text.OfNode(n.Err)
	}
}
