package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

const statusHelp = `Asks every node for what has a name, and changes nothing: a lock with its holder or its
readers, the held permits of a semaphore, and a latch. They are independent, but often of
the same name by mistake.

With several keys, each is a separate name. --json prints, for scripts:

  {"locks": [{
    "key":      the lock's name
    "state":    "held"       an owner has it on enough nodes
                "free"       a quorum of nodes has no holder, and nothing else of that
                             name is held or set
                "in_use"     the lock itself has no holder, but permits of a semaphore of
                             that name are held, or a latch is set
                "recovering" neither: too many nodes recover for a new holder; an existing
                             holder keeps it
                "partial"    neither: owners have it on some nodes only, or the nodes
                             that know more do not answer
                "wrong_type" a key of another type has this name on so many nodes that
                             the lock cannot be acquired
                "no_quorum"  too few nodes answered to tell
    "owner":    its holder; "" unless held; "quorumlock:readers" for readers
    "since":    the begin of the hold by its holder's clock (RFC 3339); "" if unknown
    "held_ms":  the time since then
    "held_at_least": whether it may be longer: nodes do not know it of holders that
                use Redisson
    "waiters":  the number of waiters, as for top
    "readers": [{
      "owner":  a reader
      "nodes":  the number of nodes on which it reads
      "ttl_ms": how long enough nodes keep it without renewal; -1 for ever
    }],
    "semaphore": null if no permit is held and no number was set, else {
      "permits": the number that was set; 0 if programs configure it
      "waiters": the number of waiters, as for top
      "held": [{
        "permit":   its number, from 0 on
        "state":    "held", or "partial" if its owner has it on too few nodes
        "owner", "nodes", "ttl_ms", "since", "held_ms", "held_at_least": as above
        "token":    the largest fencing token that its owner may use, or 0
      }]
    },
    "latch": null if none is set, else {
      "count":   the number to which it is set
      "counted": how many ids have counted down; it is done when these are "count" or more
      "nodes":   the number of nodes that know it
    },
    "need":     the number of nodes that decide
    "answered": the number of nodes that answered
    "nodes": [{
      "node":       the node's name
      "owner":      its holder on this node; "" for none
      "token":      the largest fencing token that the holder may use. For readers it is
                    the largest one that the node knows of. 0 if there is no holder
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
		Use:               "status KEY [KEY...]",
		Short:             "Show what has a name, node by node",
		Long:              statusHelp,
		Args:              arguments(named),
		ValidArgsFunction: a.completeNames,
		RunE: func(c *cobra.Command, keys []string) error {
			return a.status(c, keys, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) status(c *cobra.Command, keys []string, asJSON bool) error {
	watcher, err := a.watcher(c, keys, 0)
	if err != nil {
		return err
	}
	defer watcher.Close()
	report := newStatusReport(time.Now(), watcher.Look(c.Context()), keys)
	if err := c.Context().Err(); err != nil {
		return err
	}
	unknown := slices.ContainsFunc(report.Locks, func(n nameReport) bool { return n.State == stateNoQuorum })
	return a.printReport(report, report.text(), asJSON, unknown)
}

// printReport prints a report as JSON or as text. If too few nodes answered, it returns an error without a message,
// because the report has the reason.
func (a *app) printReport(report any, text string, asJSON, noQuorum bool) error {
	var err error
	if asJSON {
		err = printJSON(a.stdout, report)
	} else {
		_, err = io.WriteString(a.stdout, text)
	}
	if err == nil && noQuorum {
		return &exitError{code: exitNoQuorum}
	}
	return err
}

// statusReport is the output of status, documented in its help. Names are never changed, only added.
type statusReport struct {
	Locks []nameReport `json:"locks"`
}

// nameReport has the lock, the semaphore and the latch of a name.
type nameReport struct {
	*lockReport
	heldFor
	Waiters   int              `json:"waiters"`
	Readers   []holderReport   `json:"readers"`
	Semaphore *semaphoreReport `json:"semaphore"`
	Latch     *latchReport     `json:"latch"`
}

// holderReport is an owner, and on how many nodes it has its lock.
type holderReport struct {
	Owner string `json:"owner"`
	Nodes int    `json:"nodes"`
	TTL   int64  `json:"ttl_ms"`
	ttl   time.Duration
}

type permitReport struct {
	Permit int    `json:"permit"`
	State  string `json:"state"`
	holderReport
	Token uint64 `json:"token"`
	heldFor
}

type semaphoreReport struct {
	Permits int            `json:"permits"`
	Waiters int            `json:"waiters"`
	Held    []permitReport `json:"held"`
}

type latchReport struct {
	Count   int `json:"count"`
	Counted int `json:"counted"`
	Nodes   int `json:"nodes"`
}

func newStatusReport(now time.Time, facts *watch.Facts, keys []string) *statusReport {
	t := &topper{}
	report := &statusReport{}
	for _, key := range keys {
		report.Locks = append(report.Locks, t.nameReport(now, facts, key))
	}
	return report
}

func (t *topper) nameReport(now time.Time, facts *watch.Facts, key string) nameReport {
	report := newLockReport(key, facts)
	lock := t.lock(now, report, facts, make(map[string]heldSince))
	r := nameReport{lockReport: report, Waiters: lock.Waiters, Readers: report.eachReader()}
	if r.State == stateHeld {
		r.heldFor = lock.heldFor
	}
	r.Semaphore = t.semaphoreReport(now, facts, key)
	if count, counted, nodes := facts.Latch(key); count > 0 {
		r.Latch = &latchReport{count, counted, nodes}
	}
	return r
}

// eachReader returns all readers that any node reported.
func (r *lockReport) eachReader() []holderReport {
	readers := []holderReport{}
	for _, owner := range r.owners() {
		var left []time.Duration
		for _, n := range r.Nodes {
			for _, h := range n.holders {
				if h.Reads && h.Owner == owner {
					left = append(left, h.TTL)
				}
			}
		}
		if len(left) > 0 {
			readers = append(readers, newHolderReport(owner, len(left), leastOf(left, r.Need)))
		}
	}
	return readers
}

func newHolderReport(owner string, nodes int, ttl time.Duration) holderReport {
	return holderReport{Owner: owner, Nodes: nodes, TTL: ttlInMilliseconds(ttl), ttl: ttl}
}

func (t *topper) semaphoreReport(now time.Time, facts *watch.Facts, key string) *semaphoreReport {
	s := &semaphoreReport{Permits: facts.Latest(key), Held: []permitReport{}}
	for _, name := range facts.Permits(key) {
		report := newLockReport(name, facts)
		l := t.lock(now, report, facts, make(map[string]heldSince))
		if l.Owner == "" {
			continue
		}
		p := permitReport{Permit: l.Permit, State: l.State, holderReport: newHolderReport(l.Owner, l.Backing, l.ttl), heldFor: l.heldFor}
		for _, n := range report.Nodes {
			p.Token = max(p.Token, n.Token)
		}
		if p.State != stateHeld {
			p.State = statePartial
		}
		s.Held, s.Waiters = append(s.Held, p), l.Waiters
	}
	if s.Permits == 0 && len(s.Held) == 0 {
		return nil
	}
	return s
}

func (r *statusReport) text() string {
	texts := make([]string, len(r.Locks))
	for i := range r.Locks {
		texts[i] = r.Locks[i].text()
	}
	return strings.Join(texts, "\n")
}

func (r *nameReport) text() string {
	var w strings.Builder
	if r.State != stateInUse || slices.ContainsFunc(r.Nodes, func(n nodeReport) bool { return n.note() != "" || n.holdsLock }) {
		nodes := newTable("NODE", "HOLDER", "LARGEST TOKEN", "TTL LEFT", "LATENCY", "NOTE")
		for _, n := range r.Nodes {
			nodes.add("", n.cells()...)
		}
		w.WriteString(nodes.text())
	}
	total := len(r.Nodes)
	if len(r.Readers) > 0 {
		readers := newTable("READER", "NODES", "TTL LEFT")
		for _, h := range r.Readers {
			readers.add("", h.cells(total)...)
		}
		w.WriteString(readers.text())
	}
	fmt.Fprintln(&w, r.summary())
	if s := r.Semaphore; s != nil {
		w.WriteString(s.text(r.Key, total))
	}
	if l := r.Latch; l != nil {
		fmt.Fprintln(&w, l.sentence(r.Key))
	}
	return w.String()
}

func (h *holderReport) cells(total int) []string {
	return []string{quorumlock.DescribeOwner(h.Owner), fmt.Sprintf("%d/%d", h.Nodes, total), ttlText(h.ttl)}
}

func (s *semaphoreReport) text(key string, total int) string {
	var w strings.Builder
	if len(s.Held) > 0 {
		permits := newTable("PERMIT", "HOLDER", "NODES", "TTL LEFT", "HELD", "LARGEST TOKEN")
		for _, p := range s.Held {
			cells := append([]string{strconv.Itoa(p.Permit)}, p.cells(total)...)
			permits.add("", append(cells, p.heldText(), tokenText(p.Token))...)
		}
		w.WriteString(permits.text())
	}
	held, partial := 0, 0
	for _, p := range s.Held {
		if p.State == stateHeld {
			held++
		} else {
			partial++
		}
	}
	text := fmt.Sprintf("semaphore %q: %d of %d permits held", key, held, s.Permits)
	if s.Permits == 0 {
		text = fmt.Sprintf("semaphore %q: %s held; their number is not set on the nodes, programs configure it", key, plural(held, "permit"))
	}
	if partial > 0 {
		text += fmt.Sprintf("; %d on too few nodes", partial)
	}
	if s.Waiters > 0 {
		text += fmt.Sprintf("; %d waiting", s.Waiters)
	}
	return w.String() + text + "\n"
}

func (l *latchReport) sentence(key string) string {
	if l.Counted >= l.Count {
		return fmt.Sprintf("latch %q: done, all %d have counted down", key, l.Count)
	}
	return fmt.Sprintf("latch %q: %d of %d have counted down", key, l.Counted, l.Count)
}

// cells returns a node's row of the table.
func (r nodeReport) cells() []string {
	holder, ttl, latency := "-", "-", "-"
	if r.holdsLock {
		holder, ttl = quorumlock.DescribeOwner(r.Owner), ttlText(r.ttl)
	}
	if r.readers > 0 {
		holder = plural(r.readers, "reader")
	}
	if r.Error == "" {
		latency = r.latency.Round(time.Microsecond).String()
	}
	return []string{r.Node, holder, tokenText(r.Token), ttl, latency, cmp.Or(r.note(), "-")}
}

func tokenText(token uint64) string {
	if token == 0 {
		return "-"
	}
	return strconv.FormatUint(token, 10)
}

func ttlText(ttl time.Duration) string {
	if ttl == node.NoExpiry {
		return "never expires"
	}
	return ttl.Round(time.Millisecond).String()
}

// note returns anything unusual about a node.
func (r nodeReport) note() string {
	if r.Error != "" {
		return r.Error
	}
	var notes []string
	if r.recovers() {
		notes = append(notes, r.recovery())
	}
	if r.unknown != "" {
		notes = append(notes, "semaphore and latch unknown: "+r.unknown)
	}
	return strings.Join(notes, "; ")
}

func (r nodeReport) recovery() string { return recoveryText(r.recovering, !r.toBegin) }

// recoveryText describes how long a node recovers, from now or from its begin.
func recoveryText(left time.Duration, begun bool) string {
	if !begun {
		return fmt.Sprintf("recovers for %s from the first attempt at a lock on", span(left))
	}
	return "recovers for another " + span(left)
}

// anotherName is the advice about a key of another type.
const anotherName = "give the lock another name, or delete the key if no program needs it"

// summary describes the state in a line, with anything unusual.
func (r *nameReport) summary() string {
	text := r.sentence()
	if n := r.forever(); n > 0 {
		text += fmt.Sprintf("; on %s it never expires: not written by quorumlock", nodeCount(n))
	} else if r.State == stateHeld && r.Since != "" {
		text += ", for " + strings.Replace(r.heldText(), ">", "more than ", 1) + " so far"
	}
	if r.State == stateHeld && r.Waiters > 0 {
		text += fmt.Sprintf("; %d waiting", r.Waiters)
	}
	if n := r.count(nodeReport.recovers); n > 0 && r.State != stateRecovering {
		text += fmt.Sprintf("; no new locks from %s until recovered", nodeCount(n))
	}
	if n := r.wrongType(); n > 0 && r.State != stateWrongType {
		text += fmt.Sprintf("; on %s a key of another type has this name: %s", nodeCount(n), anotherName)
	}
	if n := r.count(func(n nodeReport) bool { return n.unknown != "" }); r.State == stateFree && n > len(r.Nodes)-r.Need {
		text += "; whether a semaphore or a latch of this name is in use is not known"
	}
	return text
}

func (r *nameReport) sentence() string {
	total := len(r.Nodes)
	switch r.State {
	case stateHeld:
		holder := quorumlock.DescribeOwner(r.Owner)
		if r.Owner == node.Readers {
			holder = plural(len(r.Readers), "reader")
		}
		return fmt.Sprintf("%q is held by %s on %d of %d nodes (%d needed)", r.Key, holder, r.on(r.Owner), total, r.Need)
	case stateFree, stateInUse:
		text := fmt.Sprintf("%q is free: %d of %d nodes answered (%d needed)", r.Key, r.Answered, total, r.Need)
		if r.State == stateInUse {
			text = fmt.Sprintf("no lock %q is held: %d of %d nodes answered (%d needed)", r.Key, r.Answered, total, r.Need)
		}
		if n := r.taken(); n > 0 {
			text += fmt.Sprintf("; it is taken on %s only, which is too few to hold it", nodeCount(n))
		}
		return text
	case stateRecovering:
		return r.recoveringSentence()
	case statePartial:
		return r.partialSentence()
	case stateWrongType:
		return fmt.Sprintf("%q cannot be locked: on %d of %d nodes a key of another type has this name; %s", r.Key, r.wrongType(), total, anotherName)
	default:
		return fmt.Sprintf("%q: no quorum: %d of %d nodes answered (%d needed)", r.Key, r.Answered, total, r.Need)
	}
}

// recoveringSentence describes a lock that is not granted now, whether it is held or not.
func (r *lockReport) recoveringSentence() string {
	recovering, left := r.count(nodeReport.recovers), span(r.opensIn(nodeReport.free))
	text := fmt.Sprintf("%q cannot be acquired now, as %d of %d nodes recover (%d needed): ", r.Key, recovering, len(r.Nodes), r.Need)
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
