package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

const planHelp = `Prints the lists by which running programs get from one list of nodes to another, and what
to wait for at each. It adds or removes one node at a time, since any majority then shares
a node with any majority of the list before. It asks no node.
`

func nodesCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "nodes COMMAND", DisableFlagsInUseLine: true, Short: "Plan a change of nodes", Long: planHelp,
		Args: arguments(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "plan FROM TO", Short: "Print the steps from one list of nodes to another", Long: planHelp,
		Example: `  quorumlock nodes plan a:6379,b:6379,c:6379 a:6379,b:6379,d:6379`,
		Args:    arguments(cobra.ExactArgs(2)),
		RunE:    func(c *cobra.Command, args []string) error { return a.plan(c, args[0], args[1]) },
	})
	return c
}

func (a *app) plan(c *cobra.Command, from, to string) error {
	if err := a.nodes.check(c); err != nil {
		return err
	}
	before, err := nodeNames(c, from)
	if err != nil {
		return err
	}
	after, err := nodeNames(c, to)
	if err != nil {
		return err
	}
	steps := steps(before, after)
	if len(steps) == 0 {
		return wrongUsage(c, errors.New("both lists have the same nodes"))
	}
	if strings.Contains(from+to, "://") { // names have no password
		fmt.Fprint(a.stdout, "Lists have names of nodes: where an address is more, with a user, TLS or a tag, put that.\n\n")
	}
	limits := quorumlock.Config{MaxTTL: a.nodes.maxTTL, MaxClockSkew: a.nodes.maxClockSkew, Recovery: a.nodes.recovery}.Limits()
	for i, s := range steps {
		list, even, flag := strings.Join(s.list, ","), "", ""
		if len(s.list)%2 == 0 {
			even, flag = ", with AllowEven", " --allow-even"
		}
		if limits.Longer > 0 {
			flag += fmt.Sprint(" --recovery ", limits.Longer)
		}
		fmt.Fprintf(a.stdout, "%d. %s: give all programs this list, in any order%s.\n\n     %s\n\n", i+1, s.what, even, list)
		fmt.Fprintf(a.stdout, "   When the last one has it, wait for %v", 3*limits.Recovery())
		if s.added {
			fmt.Fprintf(a.stdout, ", and until this exits with 0:\n\n     quorumlock ready --multi --max-ttl %v --max-clock-skew %v%s --nodes %s\n\n",
				limits.MaxTTL, limits.MaxClockSkew, flag, list)
		} else {
			fmt.Fprint(a.stdout, ". That node may be stopped.\n\n")
		}
	}
	if len(steps) > 1 {
		fmt.Fprint(a.stdout, "Latches, windows of Once and sizes set by SetPermits outlast one step and not two: see docs/on-call.md.\n")
	}
	return nil
}

// nodeNames returns the names of the nodes in a list of addresses. A name has no password.
func nodeNames(c *cobra.Command, list string) (names []string, err error) {
	for address := range strings.SplitSeq(list, ",") {
		opt, err := node.ParseOptions(strings.TrimSpace(address))
		if err != nil {
			return nil, wrongFlag(c, "%s", strings.TrimPrefix(err.Error(), "node: "))
		}
		n, err := node.New(opt)
		if err != nil {
			return nil, wrongFlag(c, "%s", strings.TrimPrefix(err.Error(), "node: "))
		}
		name := n.Name()
		_ = n.Close() // it never connected
		if slices.Contains(names, name) {
			return nil, wrongFlag(c, "%s is in a list twice", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// step is a step in a change of nodes: the list that it leads to, and whether it adds a node.
type step struct {
	what  string
	list  []string
	added bool
}

// steps returns the steps from one list to another. No list is shorter than both.
func steps(from, to []string) (steps []step) {
	without := func(names, others []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	}
	list, add, remove := slices.Clone(from), without(to, from), without(from, to)
	for len(add)+len(remove) > 0 {
		var s step
		if len(add) > 0 && (len(remove) == 0 || len(list) <= len(from)) {
			s.what, s.added = "Add "+add[0], true
			list, add = append(list, add[0]), add[1:]
		} else {
			s.what = "Remove " + remove[0]
			list, remove = without(list, remove[:1]), remove[1:]
		}
		s.list = slices.Clone(list)
		steps = append(steps, s)
	}
	return steps
}
