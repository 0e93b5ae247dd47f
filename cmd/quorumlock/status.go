package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
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

// What can be known of a lock: see statusHelp.
const (
	stateHeld       = "held"
	stateFree       = "free"
	stateRecovering = "recovering"
	statePartial    = "partial"
	// stateWrongType is for good, until somebody renames the lock or deletes the key.
	stateWrongType = "wrong_type"
	stateNoQuorum  = "no_quorum"
)

// anotherName is what to do about a key of another type.
const anotherName = "give the lock another name, or delete the key if nobody needs it"

// statusReport is what status prints, and documents in its help: names are never
// changed, only added.
type statusReport struct {
	Locks []lockReport `json:"locks"`
}

type lockReport struct {
	Key      string       `json:"key"`
	State    string       `json:"state"`
	Owner    string       `json:"owner"`
	Need     int          `json:"need"`
	Answered int          `json:"answered"`
	Nodes    []nodeReport `json:"nodes"`
}

type nodeReport struct {
	Node       string  `json:"node"`
	Owner      string  `json:"owner"`
	Token      uint64  `json:"token"`
	TTL        int64   `json:"ttl_ms"`
	Recovering int64   `json:"recovering_ms"`
	Latency    float64 `json:"latency_ms"`
	Error      string  `json:"error"`
	ttl        time.Duration
	recovering time.Duration
	latency    time.Duration
	holdsLock  bool
	// toBegin is set if its recovery has not begun.
	toBegin bool
	// wrongType is set if a key stands there that is no lock.
	wrongType bool
}

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
		return &exitError{code: exitNoQuorum} // the report says it
	}
	return nil
}

// survey asks for each lock. That too few nodes answer is a state like others.
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

// known reports whether a quorum answered for every lock.
func (r *statusReport) known() bool {
	return !slices.ContainsFunc(r.Locks, func(l lockReport) bool { return l.State == stateNoQuorum })
}

// report is what was learnt about one lock. For a node that has not begun to recover, the
// library tells what that takes a client with its limits.
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

func newLockReport(key string, s *quorumlock.Status) lockReport {
	r := lockReport{Key: key, Owner: s.Holder(), Need: s.Need}
	for _, n := range s.Nodes {
		nr := newNodeReport(n)
		if n.Err == nil || nr.wrongType {
			r.Answered++
		}
		r.Nodes = append(r.Nodes, nr)
	}
	if r.on(node.Readers) >= r.Need {
		r.Owner = node.Readers
	}
	r.State = r.state()
	return r
}

func newNodeReport(n quorumlock.NodeStatus) nodeReport {
	r := nodeReport{Node: n.Node, latency: n.Latency, Latency: float64(n.Latency.Microseconds()) / 1000}
	if n.Err != nil {
		r.Error, r.wrongType = nodeReason(n.Err), errors.Is(n.Err, node.ErrWrongType)
	}
	r.setRecovering(n.Recovering)
	for _, h := range n.Holders { // one at most, for one name, or all that read it
		if h.Reads {
			h.Owner, h.TTL = node.Readers, max(h.TTL, r.ttl)
		}
		r.holdsLock, r.Owner, r.Token, r.ttl, r.TTL = true, h.Owner, h.Token, h.TTL, h.TTL.Milliseconds()
		if h.TTL == node.NoExpiry {
			r.TTL = -1
		}
	}
	return r
}

func (r *nodeReport) setRecovering(left time.Duration) {
	r.recovering, r.Recovering = left, left.Milliseconds()
}

// free reports whether the node answered that nobody has the lock there. One that
// recovers may have forgotten who has.
func (r nodeReport) free() bool { return r.Error == "" && !r.holdsLock }

func (r nodeReport) recovers() bool { return r.recovering > 0 }

// state sums up what the nodes say.
func (r *lockReport) state() string {
	free := r.count(nodeReport.free)
	sure := r.count(func(n nodeReport) bool { return n.free() && !n.recovers() })
	switch {
	case r.wrongType() > len(r.Nodes)-r.Need:
		return stateWrongType
	case r.Answered < r.Need:
		return stateNoQuorum
	case r.Owner != "":
		return stateHeld
	case sure >= r.Need:
		return stateFree
	case free >= r.Need:
		return stateRecovering
	default:
		return statePartial
	}
}

// count counts the nodes of which something is true.
func (r *lockReport) count(is func(nodeReport) bool) (count int) {
	for _, n := range r.Nodes {
		if is(n) {
			count++
		}
	}
	return count
}

// taken counts the nodes that have the lock for somebody.
func (r *lockReport) taken() int {
	return r.count(func(n nodeReport) bool { return n.holdsLock })
}

// on counts the nodes that have the lock for one owner.
func (r *lockReport) on(owner string) int {
	return r.count(func(n nodeReport) bool { return n.holdsLock && n.Owner == owner })
}

// wrongType counts the nodes where a key stands that is no lock.
func (r *lockReport) wrongType() int {
	return r.count(func(n nodeReport) bool { return n.wrongType })
}

// forever counts the nodes whose key never expires.
func (r *lockReport) forever() int {
	return r.count(func(n nodeReport) bool { return n.holdsLock && n.ttl == node.NoExpiry })
}

// opensIn is how long it is until as many of these nodes as are needed have recovered.
func (r *lockReport) opensIn(these func(nodeReport) bool) time.Duration {
	var left []time.Duration
	for _, n := range r.Nodes {
		if n.Error == "" && these(n) {
			left = append(left, n.recovering)
		}
	}
	if len(left) < r.Need {
		return 0 // it is not a matter of time
	}
	slices.Sort(left)
	return left[r.Need-1]
}

// summary is the state in a line, and what is unusual about it.
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

// recoveringSentence is for a lock that is not given to anybody now, whoever has it.
func (r *lockReport) recoveringSentence() string {
	recovering, left := r.count(nodeReport.recovers), span(r.opensIn(nodeReport.free))
	text := fmt.Sprintf("%q cannot be had now, as %d of %d nodes recover (%d needed): ", r.Key, recovering, len(r.Nodes), r.Need)
	if r.count(func(n nodeReport) bool { return n.toBegin }) > 0 {
		return text + fmt.Sprintf("enough give new locks %s after the first attempt at a lock; who has it keeps it", left)
	}
	return text + fmt.Sprintf("enough give new locks in %s; who has it keeps it", left)
}

// partialSentence is for a lock that is neither held nor free, as far as can be seen.
func (r *lockReport) partialSentence() string {
	text := fmt.Sprintf("%q is taken on %d of %d nodes, but nobody has the %d needed", r.Key, r.taken(), len(r.Nodes), r.Need)
	if n := len(r.Nodes) - r.Answered; n > 0 {
		return text + fmt.Sprintf("; %s did not answer, so it may be held all the same", nodeCount(n))
	}
	return text + "; somebody may be about to take it or to release it: ask again"
}

func nodeCount(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func printJSON(w io.Writer, report statusReport) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}

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

// recovery says how long the node recovers.
func (r nodeReport) recovery() string {
	if r.toBegin {
		return fmt.Sprintf("recovers for %s from the first attempt at a lock on", span(r.recovering))
	}
	return "recovers for another " + span(r.recovering)
}

// row is a node's line of the table.
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
