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
locks for --max-ttl plus --max-clock-skew, 11s by default, from the first attempt at a
lock. Holders keep their locks meanwhile, and the node then opens by itself.

--change-limits sets nodes up for another --max-ttl or --max-clock-skew. Stop all programs
that use them first: programs with the old limits are refused from then on, and lose their
leases. The nodes then give no new locks for the longer --max-ttl plus the longer
--max-clock-skew, and open by themselves after that.
`

type initialiser struct {
	*app
	limits node.Limits
	report *admin.Report
}

func initCommand(a *app) *cobra.Command {
	var change bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Open new nodes",
		Long:  initHelp,
		Example: `  quorumlock init --nodes a:6379,b:6379,c:6379
  quorumlock init --nodes a:6379,b:6379,c:6379 --change-limits --max-ttl 30s`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.initialise(c, change)
		},
	}
	c.Flags().BoolVar(&change, "change-limits", false, "set nodes that are in use up for other limits: stop all programs that use them first")
	return c
}

func (a *app) initialise(c *cobra.Command, change bool) error {
	i, cfg, closeNodes, err := a.operator(c)
	if err != nil {
		return err
	}
	defer closeNodes()
	if change {
		return i.changeLimits(c, cfg)
	}
	return i.open(c, cfg)
}

// operator returns the configuration of the flags for package admin, with nodes of its own timeout instead of addresses:
// a client's timeout is bound to its TTL, which does not matter here.
func (a *app) operator(c *cobra.Command) (i *initialiser, cfg quorumlock.Config, closeNodes func(), err error) {
	cfg, options, err := a.servers(c, "in-memory nodes are opened when they are made")
	if err != nil {
		return nil, cfg, nil, err
	}
	timeout := cmp.Or(a.nodes.nodeTimeout, surveyTimeout)
	for _, opt := range options {
		opt.Timeout = cmp.Or(opt.Timeout, timeout)
		opt.ConnectTimeout = cmp.Or(opt.ConnectTimeout, timeout)
		n, err := node.New(opt)
		if err != nil {
			return nil, cfg, nil, wrongUsage(c, err)
		}
		cfg.Nodes = append(cfg.Nodes, n)
	}
	cfg.Addresses, cfg.NodeTimeoutMax = nil, 0
	cfg.AllowEviction, cfg.AllowUnseenLosses = false, false // the nodes have them
	return &initialiser{app: a, limits: cfg.Limits()}, cfg, func() {
		for _, n := range cfg.Nodes {
			_ = n.Close() // the report is complete by then
		}
	}, nil
}

func (i *initialiser) open(c *cobra.Command, cfg quorumlock.Config) error {
	report, err := admin.Init(c.Context(), cfg)
	if report == nil {
		return configProblem(c, err)
	}
	i.report = report
	i.printNodes()
	opened := func(n admin.NodeReport) bool { return n.State == admin.Opened }
	switch {
	case err == nil:
		fmt.Fprintf(i.stdout, "all %d nodes are open\n", len(report.Nodes))
		return nil
	case errors.Is(err, admin.ErrLimits):
		return exit.Errorf(exit.Failure, "nothing was opened, as the limits of these nodes are not %s: use the same limits for init and all programs, "+
			"or change the limits of the nodes with --change-limits, after all programs that use them have stopped", text.InFlags(i.limits))
	case errors.Is(err, admin.ErrInUse):
		return exit.Errorf(exit.NoQuorum, "nothing was opened, as not all nodes are new: those that recover may have forgotten locks that are still held. "+
			"Wait: all nodes open by themselves in %s", text.Span(i.left()))
	case slices.ContainsFunc(report.Nodes, opened):
		return exit.Errorf(exit.NoQuorum, "some nodes failed while the others were opened: repeat the command to see their state")
	default:
		return exit.Errorf(exit.NoQuorum, "nothing was opened, as nodes failed: fix that, and repeat the command; or wait: nodes that recover open by themselves")
	}
}

func (i *initialiser) changeLimits(c *cobra.Command, cfg quorumlock.Config) error {
	report, err := admin.ChangeLimits(c.Context(), cfg)
	if report == nil {
		return configProblem(c, err)
	}
	i.report = report
	i.printNodes()
	if err != nil {
		return exit.Errorf(exit.NoQuorum, "not all nodes were changed: fix that, and repeat the command before any program starts")
	}
	i.say("warning: programs with other limits lose their leases on these nodes within their TTL")
	done := fmt.Sprintf("all %d nodes are set up for %s", len(report.Nodes), text.InFlags(i.limits))
	if left := i.left(); left > 0 {
		done += ", and all give locks in " + text.Span(left)
	}
	fmt.Fprintln(i.stdout, done)
	return nil
}

func (i *initialiser) printNodes() {
	for _, n := range i.report.Nodes {
		fmt.Fprintf(i.stdout, "%s: %s\n", n.Node, i.became(n))
	}
}

func (i *initialiser) became(n admin.NodeReport) (became string) {
	switch n.State {
	case admin.Opened:
		became = "opened"
	case admin.Open:
		became = "open already"
	case admin.Recovering:
		became = "recovering for another " + text.Span(n.Left)
	default:
		return "failed: " + failure(n.Err)
	}
	if n.Limits != i.limits {
		became += ", set up for " + text.InFlags(n.Limits)
	}
	return became
}

func failure(err error) string {
	if errors.Is(err, admin.ErrChanged) {
		return "the node lost its memory, or another client set it up, in the meantime"
	}
	return text.OfNode(err)
}

// left is the time until the last recovery ends.
func (i *initialiser) left() (left time.Duration) {
	for _, n := range i.report.Nodes {
		left = max(left, n.Left)
	}
	return left
}
