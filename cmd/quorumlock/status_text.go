package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// anotherName is the advice about a key of another type.
const anotherName = "give the lock another name, or delete the key if nobody needs it"

func printTables(w io.Writer, report statusReport) error {
	for i, r := range report.Locks {
		if i > 0 {
			fmt.Fprintln(w)
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NODE\tHOLDER\tLARGEST TOKEN\tTTL LEFT\tLATENCY\tNOTE")
		for _, n := range r.Nodes {
			fmt.Fprintln(table, n.row())
		}
		if err := table.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w, r.summary())
	}
	return nil
}

// row returns a node's line of the table.
func (r nodeReport) row() string {
	holder, token, ttl, latency, note := "-", "-", "-", "-", "-"
	if r.holdsLock {
		holder, ttl = quorumlock.DescribeOwner(r.Owner), r.ttl.Round(time.Millisecond).String()
	}
	if r.Token > 0 {
		token = strconv.FormatUint(r.Token, 10)
	}
	if r.ttl == node.NoExpiry {
		ttl = "never expires"
	}
	switch {
	case r.Error != "":
		note = r.Error
	case r.recovers():
		note = r.recovery()
	}
	if r.Error == "" {
		latency = r.latency.Round(time.Microsecond).String()
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", r.Node, holder, token, ttl, latency, note)
}

func (r nodeReport) recovery() string { return recoveryText(r.recovering, !r.toBegin) }

// recoveryText describes how long a node recovers, from now or from its begin.
func recoveryText(left time.Duration, begun bool) string {
	if !begun {
		return fmt.Sprintf("recovers for %s from the first attempt at a lock on", span(left))
	}
	return "recovers for another " + span(left)
}

// summary describes the state in a line, with anything unusual.
func (r *lockReport) summary() string {
	text := r.sentence()
	if n := r.forever(); n > 0 {
		text += fmt.Sprintf("; on %s it never expires: not written by quorumlock", nodeCount(n))
	}
	if n := r.count(nodeReport.recovers); n > 0 && r.State != stateRecovering {
		text += fmt.Sprintf("; no new locks from %s until recovered", nodeCount(n))
	}
	if n := r.wrongType(); n > 0 && r.State != stateWrongType {
		text += fmt.Sprintf("; on %s a key of another type stands at this name: %s", nodeCount(n), anotherName)
	}
	return text
}

func (r *lockReport) sentence() string {
	total := len(r.Nodes)
	switch r.State {
	case stateHeld:
		return fmt.Sprintf("%q is held by %s on %d of %d nodes (%d needed)", r.Key, quorumlock.DescribeOwner(r.Owner), r.on(r.Owner), total, r.Need)
	case stateFree:
		text := fmt.Sprintf("%q is free: %d of %d nodes answered (%d needed)", r.Key, r.Answered, total, r.Need)
		if n := r.taken(); n > 0 {
			text += fmt.Sprintf("; it is taken on %s only, which is too few to hold it", nodeCount(n))
		}
		return text
	case stateRecovering:
		return r.recoveringSentence()
	case statePartial:
		return r.partialSentence()
	case stateWrongType:
		return fmt.Sprintf("%q cannot be locked: on %d of %d nodes a key of another type stands at this name; %s", r.Key, r.wrongType(), total, anotherName)
	default:
		return fmt.Sprintf("%q: no quorum: %d of %d nodes answered (%d needed)", r.Key, r.Answered, total, r.Need)
	}
}

// recoveringSentence describes a lock that is not granted now, whether it is held or not.
func (r *lockReport) recoveringSentence() string {
	recovering, left := r.count(nodeReport.recovers), span(r.opensIn(nodeReport.free))
	text := fmt.Sprintf("%q cannot be had now, as %d of %d nodes recover (%d needed): ", r.Key, recovering, len(r.Nodes), r.Need)
	if r.count(func(n nodeReport) bool { return n.toBegin }) > 0 {
		return text + fmt.Sprintf("enough give new locks %s after the first attempt at a lock; its holder keeps it", left)
	}
	return text + fmt.Sprintf("enough give new locks in %s; its holder keeps it", left)
}

// partialSentence describes a lock that seems to be neither held nor free.
func (r *lockReport) partialSentence() string {
	text := fmt.Sprintf("%q is taken on %d of %d nodes, but no owner has the %d needed", r.Key, r.taken(), len(r.Nodes), r.Need)
	if n := len(r.Nodes) - r.Answered; n > 0 {
		return text + fmt.Sprintf("; %s did not answer, so it may be held all the same", nodeCount(n))
	}
	return text + "; an acquire or a release may be in flight: ask again"
}

func nodeCount(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
