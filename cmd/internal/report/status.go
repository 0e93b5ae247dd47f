package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// Status is everything that is held or set of some names. The JSON is documented in the help of status.
type Status struct {
	Locks []Name `json:"locks"`
}

// Name has the lock, the semaphore and the latch of a name.
type Name struct {
	*Lock
	age
	Waiters   int        `json:"waiters"`
	Readers   []holder   `json:"readers"`
	Semaphore *semaphore `json:"semaphore"`
	Latch     *latch     `json:"latch"`
}

// holder is an owner, and on how many nodes it has its lock.
type holder struct {
	Owner string `json:"owner"`
	Nodes int    `json:"nodes"`
	TTL   whole  `json:"ttl_ms"`
}

type permit struct {
	Permit int    `json:"permit"`
	State  string `json:"state"`
	holder
	Token uint64 `json:"token"`
	age
}

type semaphore struct {
	Permits int      `json:"permits"`
	Waiters int      `json:"waiters"`
	Held    []permit `json:"held"`
}

type latch struct {
	Count   int `json:"count"`
	Counted int `json:"counted"`
	Nodes   int `json:"nodes"`
}

// NewStatus reports on names.
func NewStatus(now time.Time, facts *watch.Facts, keys []string) *Status {
	status := &Status{}
	r := newRows(now, facts, nil)
	for _, key := range keys {
		lock := NewLock(key, facts)
		row := r.row(lock)
		name := Name{Lock: lock, Waiters: row.Waiters, Readers: lock.readers(), Semaphore: r.semaphore(key)}
		if lock.State == Held {
			name.age = row.age
		}
		if count, counted, nodes := facts.Latch(key); count > 0 {
			name.Latch = &latch{count, counted, nodes}
		}
		status.Locks = append(status.Locks, name)
	}
	return status
}

// readers returns all readers that any node reported.
func (l *Lock) readers() []holder {
	readers := []holder{}
	for _, owner := range l.Owners() {
		var left []time.Duration
		for _, a := range l.Nodes {
			for _, h := range a.holders {
				if h.Reads && h.Owner == owner {
					left = append(left, h.TTL)
				}
			}
		}
		if nodes := len(left); nodes > 0 {
			readers = append(readers, holder{owner, nodes, whole(enough(left, l.Need))})
		}
	}
	return readers
}

func (r *rows) semaphore(key string) *semaphore {
	s := &semaphore{Permits: r.facts.Latest(key), Held: []permit{}}
	for _, name := range r.facts.Permits(key) {
		lock := NewLock(name, r.facts)
		row := r.row(lock)
		if row.Owner == "" {
			continue
		}
		p := permit{Permit: row.Permit, State: row.State, holder: holder{row.Owner, row.Backing, row.TTL}, age: row.age}
		for _, a := range lock.Nodes {
			p.Token = max(p.Token, a.Token)
		}
		if p.State != Held {
			p.State = Partial
		}
		s.Held, s.Waiters = append(s.Held, p), row.Waiters
	}
	if s.Permits == 0 && len(s.Held) == 0 {
		return nil
	}
	return s
}

func (s *Status) String() string {
	texts := make([]string, len(s.Locks))
	for i := range s.Locks {
		texts[i] = s.Locks[i].String()
	}
	return strings.Join(texts, "\n")
}

func (n *Name) String() string {
	var w strings.Builder
	if n.State != InUse || slices.ContainsFunc(n.Nodes, func(a Answer) bool { return a.note() != "" || a.holds() }) {
		nodes := text.NewTable("NODE", "HOLDER", "LARGEST TOKEN", "TTL LEFT", "LATENCY", "NOTE")
		for _, a := range n.Nodes {
			nodes.Add("", a.cells()...)
		}
		w.WriteString(nodes.String())
	}
	if len(n.Readers) > 0 {
		readers := text.NewTable("READER", "NODES", "TTL LEFT")
		for _, h := range n.Readers {
			readers.Add("", h.cells(len(n.Nodes))...)
		}
		w.WriteString(readers.String())
	}
	fmt.Fprintln(&w, n.summary())
	if n.Semaphore != nil {
		w.WriteString(n.Semaphore.text(n.Key, len(n.Nodes)))
	}
	if n.Latch != nil {
		fmt.Fprintln(&w, n.Latch.sentence(n.Key))
	}
	return w.String()
}

func (h *holder) cells(total int) []string {
	return []string{quorumlock.DescribeOwner(h.Owner), fmt.Sprintf("%d/%d", h.Nodes, total), h.TTL.text()}
}

func (s *semaphore) text(key string, total int) string {
	table := text.NewTable("PERMIT", "HOLDER", "NODES", "TTL LEFT", "HELD", "LARGEST TOKEN")
	held, partial := "", 0
	for _, p := range s.Held {
		cells := append([]string{strconv.Itoa(p.Permit)}, p.cells(total)...)
		table.Add("", append(cells, p.text(), tokenText(p.Token))...)
		if p.State != Held {
			partial++
		}
	}
	if len(s.Held) > 0 {
		held = table.String()
	}
	sentence := fmt.Sprintf("semaphore %q: %d of %d permits held", key, len(s.Held)-partial, s.Permits)
	if s.Permits == 0 {
		sentence = fmt.Sprintf("semaphore %q: %s held; their number is not set on the nodes, programs configure it", key, text.Plural(len(s.Held)-partial, "permit"))
	}
	if partial > 0 {
		sentence += fmt.Sprintf("; %d on too few nodes", partial)
	}
	if s.Waiters > 0 {
		sentence += fmt.Sprintf("; %d waiting", s.Waiters)
	}
	return held + sentence + "\n"
}

func (l *latch) sentence(key string) string {
	if l.Counted >= l.Count {
		return fmt.Sprintf("latch %q: done, all %d have counted down", key, l.Count)
	}
	return fmt.Sprintf("latch %q: %d of %d have counted down", key, l.Counted, l.Count)
}

// cells returns a node's row of the table.
func (a Answer) cells() []string {
	holder, ttl, latency, readers := "-", "-", "-", 0
	for _, h := range a.holders {
		if h.Reads {
			readers++
		}
	}
	if a.holds() {
		holder, ttl = quorumlock.DescribeOwner(a.Owner), a.TTL.text()
	}
	if readers > 0 {
		holder = text.Plural(readers, "reader")
	}
	if a.Error == "" {
		latency = time.Duration(a.Latency).Round(time.Microsecond).String()
	}
	return []string{a.Node, holder, tokenText(a.Token), ttl, latency, cmp.Or(a.note(), "-")}
}

func tokenText(token uint64) string {
	if token == 0 {
		return "-"
	}
	return strconv.FormatUint(token, 10)
}

// note returns anything unusual about a node.
func (a Answer) note() string {
	switch {
	case a.Error != "":
		return a.Error
	case a.unknown == "":
		return a.recovery()
	default:
		return strings.TrimPrefix(a.recovery()+"; semaphore and latch unknown: "+a.unknown, "; ")
	}
}

// AnotherName is the advice about a key of another type.
const AnotherName = "give the lock another name, or delete the key if no program needs it"

// summary describes the state in a line, with anything unusual.
func (n *Name) summary() string {
	said := n.sentence()
	if forever := n.count(Answer.neverExpires); forever > 0 {
		said += fmt.Sprintf("; on %s it never expires: not written by quorumlock", text.Nodes(forever))
	} else if n.State == Held && n.Since != "" {
		said += ", for " + strings.Replace(n.text(), ">", "more than ", 1) + " so far"
	}
	if n.State == Held && n.Waiters > 0 {
		said += fmt.Sprintf("; %d waiting", n.Waiters)
	}
	if recover := n.count(Answer.recovers); recover > 0 && n.State != Recovering {
		said += fmt.Sprintf("; no new locks from %s until recovered", text.Nodes(recover))
	}
	if wrong := n.WrongType(); wrong > 0 && n.State != WrongType {
		said += fmt.Sprintf("; on %s a key of another type has this name: %s", text.Nodes(wrong), AnotherName)
	}
	if unknown := n.count(func(a Answer) bool { return a.unknown != "" }); n.State == Free && unknown > len(n.Nodes)-n.Need {
		said += "; whether a semaphore or a latch of this name is in use is not known"
	}
	return said
}

func (n *Name) sentence() string {
	total := len(n.Nodes)
	answered := fmt.Sprintf("%d of %d nodes answered (%d needed)", n.Answered, total, n.Need)
	switch n.State {
	case Held:
		holder := quorumlock.DescribeOwner(n.Owner)
		if n.Owner == node.Readers {
			holder = text.Plural(len(n.Readers), "reader")
		}
		return fmt.Sprintf("%q is held by %s on %d of %d nodes (%d needed)", n.Key, holder, n.on(n.Owner), total, n.Need)
	case Free, InUse:
		said := fmt.Sprintf("%q is free: %s", n.Key, answered)
		if n.State == InUse {
			said = fmt.Sprintf("no lock %q is held: %s", n.Key, answered)
		}
		if taken := n.Taken(); taken > 0 {
			said += fmt.Sprintf("; it is taken on %s only, which is too few to hold it", text.Nodes(taken))
		}
		return said
	case Recovering: // it is not granted now, whether it is held or not
		when := "enough give new locks in %s; its holder keeps it"
		if n.count(func(a Answer) bool { return a.toBegin }) > 0 {
			when = "enough give new locks %s after the first attempt at a lock; its holder keeps it"
		}
		return fmt.Sprintf("%q cannot be acquired now, as %d of %d nodes recover (%d needed): "+when,
			n.Key, n.count(Answer.recovers), total, n.Need, text.Span(n.opens(Answer.isFree)))
	case Partial: // it seems to be neither held nor free
		said := fmt.Sprintf("%q is taken on %d of %d nodes, but no owner has the %d needed; ", n.Key, n.Taken(), total, n.Need)
		if silent := total - n.Answered; silent > 0 {
			return said + text.Nodes(silent) + " did not answer, so it may be held all the same"
		}
		return said + "an acquire or a release may be in flight: ask again"
	case WrongType:
		return fmt.Sprintf("%q cannot be locked: on %d of %d nodes a key of another type has this name; %s", n.Key, n.WrongType(), total, AnotherName)
	default:
		return fmt.Sprintf("%q: no quorum: %s", n.Key, answered)
	}
}
