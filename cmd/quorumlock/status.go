package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

const statusHelp = `Asks every node for the holder of a lock, and changes nothing.

With several keys, each is a separate lock. --json prints, for scripts:

  {"locks": [{
    "key":      the lock's name
    "state":    "held"       an owner has it on enough nodes
                "free"       a quorum of nodes has no holder
                "recovering" neither: too many nodes recover for a new holder; an existing
                             holder keeps it
                "partial"    neither: owners have it on some nodes only, or the nodes
                             that know more do not answer
                "wrong_type" a key of another type has this name on so many nodes that
                             the lock cannot be acquired
                "no_quorum"  too few nodes answered to tell
    "owner":    its holder; "" unless held
    "need":     the number of nodes that decide
    "answered": the number of nodes that answered
    "nodes": [{
      "node":       the node's name
      "owner":      its holder on this node; "" for none
      "token":      the largest fencing token that the node knows of: the holder's, or
                    that of a failed attempt; 0 if there is no holder
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

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status KEY [KEY...]",
		Short: "Show the holder of a lock, node by node",
		Long:  statusHelp,
		Args:  arguments(named),
		RunE: func(c *cobra.Command, keys []string) error {
			return a.status(c, keys, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) status(c *cobra.Command, keys []string, asJSON bool) error {
	client, err := a.surveyClient(c)
	if err != nil {
		return err
	}
	defer a.closeClient(c.Context(), client.Client)
	report, err := survey(c.Context(), client, keys)
	if err != nil {
		return err
	}
	print := printTables
	if asJSON {
		print = printJSON
	}
	if err := print(a.stdout, report); err != nil {
		return err
	}
	if !report.known() {
		return &exitError{code: exitNoQuorum} // the report has the reason
	}
	return nil
}

// survey inspects each lock. Too few answers are a state, not an error.
func survey(ctx context.Context, client *surveyor, keys []string) (report statusReport, err error) {
	for _, key := range keys {
		status, err := client.RedLock(key).Inspect(ctx)
		if err != nil && !errors.Is(err, quorumlock.ErrNoQuorum) {
			return report, err
		}
		report.Locks = append(report.Locks, client.report(key, status))
	}
	return report, nil
}

// report describes one lock. For a node whose recovery has not begun, it uses the duration that the library reports
// for a client with its limits.
func (s *surveyor) report(key string, status *quorumlock.Status) lockReport {
	r := newLockReport(key, status)
	for i := range r.Nodes {
		if n := &r.Nodes[i]; status.Nodes[i].Unmarked {
			n.toBegin = true
			n.setRecovering(s.agreed.Recovery())
		}
	}
	return r
}

func printJSON(w io.Writer, report statusReport) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}
