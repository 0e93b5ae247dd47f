package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

const releaseHelp = `Takes a lock from its holder, on all nodes. Use it if the holder is known to be dead. The
lock of a dead holder also frees itself when its TTL is over.

A live holder is not asked. It notices the release at its next renewal, a third of its TTL
later or, in the worst case, when its lease is over. Until then it continues to work,
while the next holder may already be working. Its renewals cannot put the lock back:
each node remembers the former owner.
`

var errNotForced = errors.New("refused without --force: the holder may be alive, and would work on beside the next one until it notices; " +
	"if it is dead, the lock frees itself within its TTL. See who holds it with 'quorumlock status'")

func (a *app) releaseCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "release --force KEY [KEY...]",
		Short: "Take a lock from its holder",
		Long:  releaseHelp,
		Args:  arguments(named),
		RunE: func(c *cobra.Command, keys []string) error {
			if !force {
				return wrongUsage(c, errNotForced)
			}
			return a.forceRelease(c, keys)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "yes, take it, even from a holder that is alive")
	return c
}

func (a *app) forceRelease(c *cobra.Command, keys []string) error {
	client, err := a.surveyClient(c)
	if err != nil {
		return err
	}
	defer a.closeClient(c.Context(), client.Client)
	var failed error
	for _, key := range keys {
		status, err := client.RedLock(key).ForceRelease(c.Context())
		unknown := errors.Is(err, quorumlock.ErrNoQuorum)
		if err != nil && !unknown {
			return err
		}
		client.addRecoveries(c.Context(), key, status)
		a.printRemoved(key, status, client)
		if unknown {
			failed = &exitError{code: exitNoQuorum} // what it is, has been said
		}
	}
	return failed
}

// addRecoveries asks which nodes recover, because a forced release does not report that.
func (s *surveyor) addRecoveries(ctx context.Context, key string, status *quorumlock.Status) {
	now, _ := s.RedLock(key).Inspect(ctx) // what failed before, has been told
	if now == nil {
		return
	}
	for i, n := range now.Nodes {
		status.Nodes[i].Recovering, status.Nodes[i].Unmarked = n.Recovering, n.Unmarked
	}
}

// printRemoved prints what was removed from which node, and the consequences.
func (a *app) printRemoved(key string, s *quorumlock.Status, by *surveyor) {
	r := by.report(key, s)
	removed := 0
	for i, n := range s.Nodes {
		text := removal(key, n)
		if r.Nodes[i].recovers() {
			text += "; the node " + r.Nodes[i].recovery()
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", n.Node, text)
		removed += len(n.Holders)
	}
	switch {
	case removed > 0:
		fmt.Fprintf(a.stdout, "%q was removed from %d of %d nodes\n", key, removed, len(s.Nodes))
		a.say("warning: if %s is alive, it works on until its next renewal fails, and others can have %q %s", shownOwners(s), key, whenOpen(r))
	case r.wrongType() == 0:
		fmt.Fprintf(a.stdout, "%q was not held on any node that answered\n", key)
	}
	if n := r.wrongType(); n > 0 {
		a.say("nothing was done about a key of another type, which is no lock, at %q on %d of %d nodes: %s", key, n, len(s.Nodes), anotherName)
	}
	if r.Answered < r.Need {
		a.say("no quorum: %d of %d nodes answered for %q, %d needed; on the others it stays until its TTL is over", r.Answered, len(r.Nodes), key, r.Need)
	}
}

// whenOpen says when others can acquire a lock that was taken from its holder.
func whenOpen(r lockReport) string {
	if left := r.opensIn(func(nodeReport) bool { return true }); left > 0 {
		return "in " + span(left) + ", when enough nodes have recovered"
	}
	return "from now on"
}

// shownOwners lists all owners that lost the lock.
func shownOwners(s *quorumlock.Status) string {
	owners := s.Owners()
	for i := range owners {
		owners[i] = quorumlock.DescribeOwner(owners[i])
	}
	return strings.Join(owners, " or ")
}

// removal describes the result on one node.
func removal(key string, n quorumlock.NodeStatus) string {
	if n.Err != nil {
		return "not removed: " + nodeReason(n.Err)
	}
	if len(n.Holders) == 0 {
		return "nothing there"
	}
	h := n.Holders[0] // at most one, for one name
	if h.TTL == node.NoExpiry {
		return fmt.Sprintf("removed %q of %s, which never expired: not written by quorumlock", key, quorumlock.DescribeOwner(h.Owner))
	}
	return fmt.Sprintf("removed %q of %s, %v before it would have run out", key, quorumlock.DescribeOwner(h.Owner), h.TTL.Round(time.Millisecond))
}

// nodeReason returns a node's error for a line that already has the node's name and the operation.
func nodeReason(err error) string {
	text := plain(err)
	if e, ok := errors.AsType[*node.Error](err); ok {
		text = strings.TrimPrefix(text, escaped(fmt.Sprintf("node %s: %v: ", e.Node, e.Op)))
	}
	return text
}
