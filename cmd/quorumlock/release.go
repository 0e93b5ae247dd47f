package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/report"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const releaseHelp = `Takes a lock from its holder, on all nodes. Use it if the holder is known to be dead. The
lock of a dead holder also frees itself when its TTL is over.

A live holder is not asked. The nodes tell its client, which hears it if it has waiters
for any lock. Otherwise it notices the release at its next renewal, a third of its TTL
later or, in the worst case, when its lease is over. Until then it continues to work,
while the next holder may already be working. Its renewals cannot put the lock back:
each node remembers the former owner.

Without another flag, the lock is taken from whoever holds it, or from all its readers.
--owner takes from one owner alone all that it has of the name: the lock, as the writer or
a reader, or permits of the semaphore, since a lease is lost as a whole. 'quorumlock
status' shows the owners.
`

var errNotForced = errors.New("refused without --force: the holder may be alive, and would work beside the next holder until it notices the loss; " +
	"if it is dead, the lock frees itself within its TTL. See who holds it with 'quorumlock status'")

type releaser struct {
	*app
	watcher *watch.Watcher
	facts   *watch.Facts
	owner   string
}

func releaseCommand(a *app) *cobra.Command {
	var force bool
	r := &releaser{app: a}
	c := &cobra.Command{
		Use:   "release --force KEY [KEY...]",
		Short: "Take a lock or a permit from its holder",
		Long:  releaseHelp,
		Example: `  quorumlock release --force nightly-report
  quorumlock release --force prices --owner R4ZKX2Q7M3:17`,
		Args: arguments(named),
		RunE: func(c *cobra.Command, keys []string) error {
			if !force {
				return wrongUsage(c, errNotForced)
			}
			return r.release(c, keys)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "yes, take it, even from a holder that is alive")
	c.Flags().StringVar(&r.owner, "owner", "", "take only what this owner has; the `id` is its first word in status")
	return c
}

func (r *releaser) release(c *cobra.Command, keys []string) error {
	var err error
	if r.watcher, err = r.app.watcher(c, keys, 0); err != nil {
		return err
	}
	defer r.watcher.Close()
	r.facts = r.watcher.Look(c.Context())
	var failed error
	for _, key := range keys {
		err := r.releaseName(c.Context(), key)
		if err == nil {
			continue
		}
		if said := exit.Message(err); said != "" {
			r.say("%s", said)
		}
		if failed == nil || exit.Code(failed) == exit.Failure { // other codes say more
			failed = exit.Silent(exit.Code(err))
		}
	}
	return failed
}

func (r *releaser) releaseName(ctx context.Context, key string) error {
	if r.owner != "" {
		return r.evict(ctx, key)
	}
	owners := report.NewLock(key, r.facts).Owners()
	if permits := r.facts.Permits(key); len(owners) == 0 && len(permits) > 0 {
		return fmt.Errorf("nothing was released: no lock %q is held, but %s of the semaphore; choose with --owner", key, permitNumbers(permits))
	}
	if count, _ := r.facts.Latch(key); len(owners) == 0 && count > 0 {
		return fmt.Errorf("nothing was released: %q is a latch, which has no holder", key)
	}
	for i, reply := range r.watcher.ForceRelease(ctx, key, owners) {
		r.facts.Nodes[i].Locks[key] = watch.Lock{Holders: watch.HoldersOf(reply), Err: reply.Err}
	}
	lock := report.NewLock(key, r.facts)
	for _, n := range lock.Nodes {
		fmt.Fprintf(r.stdout, "%s: %s\n", n.Node, n.Removal(key))
	}
	removed := lock.Taken()
	switch {
	case removed > 0:
		fmt.Fprintf(r.stdout, "%q was removed from %d of %d nodes\n", key, removed, len(lock.Nodes))
		r.warnOf(lock.Owners(), key, lock)
	case lock.WrongType() == 0:
		fmt.Fprintf(r.stdout, "%q was not held on any node that answered\n", key)
	}
	if n := lock.WrongType(); n > 0 {
		r.say("nothing was done about a key of another type, which is no lock, at %q on %d of %d nodes: %s", key, n, len(lock.Nodes), report.AnotherName)
	}
	return r.answered(key, lock)
}

func (r *releaser) answered(key string, lock *report.Lock) error {
	if lock.Answered >= lock.Need && lock.WrongType() <= len(lock.Nodes)-lock.Need {
		return nil
	}
	if lock.Answered < lock.Need {
		r.say("no quorum: %d of %d nodes answered for %q, %d needed; on the others it stays until its TTL is over", lock.Answered, len(lock.Nodes), key, lock.Need)
	}
	return exit.Silent(exit.NoQuorum) // the reason has been said
}

// warnOf tells what follows if the owners are alive.
func (r *releaser) warnOf(owners []string, key string, lock *report.Lock) {
	for i, owner := range owners {
		owners[i] = quorumlock.DescribeOwner(owner)
	}
	when := "from now on"
	if left := lock.Opens(); left > 0 {
		when = "in " + text.Span(left) + ", when enough nodes have recovered"
	}
	r.say("warning: if %s is alive, it may go on until its next renewal fails, and others can have %q %s", strings.Join(owners, " or "), key, when)
}

func (r *releaser) evict(ctx context.Context, key string) error {
	var failed error
	nothing := true
	for _, names := range [][]string{r.facts.Permits(key), {key}} {
		if owner, held := r.chosen(names); len(held) > 0 {
			failed, nothing = errors.Join(failed, r.evictOwner(ctx, key, owner, held)), false
		}
	}
	if nothing {
		return fmt.Errorf("%s holds nothing of the name %q on any node that answered", text.Escaped(r.owner), key)
	}
	return failed
}

// chosen returns the whole id of the chosen owner, and which of the names it holds on any node.
func (r *releaser) chosen(names []string) (id string, held []string) {
	for _, name := range names {
		for _, owner := range report.NewLock(name, r.facts).Owners() {
			if owner == r.owner || quorumlock.ParseOwner(owner).ID == r.owner {
				id, held = owner, append(held, name)
			}
		}
	}
	return id, held
}

func (r *releaser) evictOwner(ctx context.Context, key, owner string, names []string) error {
	what := strconv.Quote(key)
	if names[0] != key {
		what = fmt.Sprintf("%s of the semaphore %q", permitNumbers(names), key)
	}
	removed := 0
	for i, reply := range r.watcher.Evict(ctx, owner, names, r.facts.Latest(key)) {
		n := &r.facts.Nodes[i]
		if reply.Err != nil {
			n.Err = reply.Err
			fmt.Fprintf(r.stdout, "%s: not removed: %s\n", n.Name, text.OfNode(reply.Err))
		}
		if reply.Outcome == wire.Released {
			removed++
		}
	}
	lock := report.NewLock(key, r.facts)
	fmt.Fprintf(r.stdout, "%s: taken from %s on %d of %d nodes\n", what, quorumlock.DescribeOwner(owner), removed, len(lock.Nodes))
	r.warnOf([]string{owner}, key, lock)
	return r.answered(key, lock)
}

func permitNumbers(names []string) string {
	var numbers []string
	for _, name := range names {
		_, number, _ := wire.Permit(name)
		numbers = append(numbers, strconv.Itoa(number))
	}
	if len(numbers) == 1 {
		return "permit " + numbers[0]
	}
	return "permits " + text.Enumerated(numbers)
}
