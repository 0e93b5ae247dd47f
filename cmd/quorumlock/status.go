package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
)

const statusHelp = `Asks every node who holds a lock, and changes nothing.

With several keys, each is a lock of its own. --json prints, for scripts:

  {"locks": [{
    "key":      the lock's name
    "state":    "held"       an owner has it on as many nodes as are needed
                "free"       a quorum of nodes has nothing
                "recovering" neither: so many nodes recover that nobody can have it now,
                             but for who has it already
                "partial"    neither: owners have it on some nodes only, or the nodes
                             that know more do not answer
                "wrong_type" a key of another type stands at this name on so many
                             nodes that nobody can have the lock
                "no_quorum"  too few nodes answered to tell
    "owner":    who holds it; "" unless held
    "need":     how many nodes decide
    "answered": how many of them answered
    "nodes": [{
      "node":       the node's name
      "owner":      who has it there; "" for nobody
      "token":      the largest fencing token that the node knows of: the holder's, or
                    that of an attempt that failed; 0 if nobody has the lock
      "ttl_ms":     how long it stays without renewal; -1 for ever (not of this
                    library's doing), 0 if nobody has it
      "recovering_ms": how long the node gives no new locks, as it is new or has lost
                    its memory; from the first attempt at a lock on, if there was none
                    yet. 0 if it gives them
      "latency_ms": how long the answer took
      "error":      why there was none; "" if there was
    }]
  }]}

It ends with 0 if the state is known, and with 121 if it is "no_quorum".
`

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status KEY [KEY...]",
		Short: "Show who holds a lock, node by node",
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
