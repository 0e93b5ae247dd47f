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

// Status is everything that is held or set of some names.
type Status []Name

// Name has the lock, the semaphore and the latch of a name.
type Name struct {
	*Lock
	age
	waiters int
	readers []holder
	// permits are the held permits, and size is how many there are; 0 if that is not set on the nodes.
	permits []permit
	size    int
	// latched is the number to which the latch is set, or 0, and counted how many ids have counted down.
	latched, counted int
}

// holder is an owner, and on how many nodes it has its lock.
type holder struct {
	owner string
	nodes int
	ttl   time.Duration
}

// permit is a permit and the largest fencing token that its owner may use.
type permit struct {
	Row
	token uint64
}

// NewStatus reports on names.
func NewStatus(now time.Time, facts *watch.Facts, keys []string) (status Status) {
	r := &rows{now, facts}
	for _, key := range keys {
		lock := NewLock(key, facts)
		row := r.row(lock)
		name := Name{Lock: lock, waiters: row.Waiters, readers: lock.readers(), permits: r.permits(key), size: facts.Latest(key)}
		if lock.State == Held {
			name.age = row.age
		}
		name.latched, name.counted = facts.Latch(key)
		status = append(status, name)
	}
	return status
}

func (l *Lock) readers() (readers []holder) {
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
			readers = append(readers, holder{owner, nodes, enough(left, l.Need)})
		}
	}
	return readers
}

// permits returns the permits of a semaphore that any owner has.
func (r *rows) permits(key string) (held []permit) {
	for _, name := range r.facts.Permits(key) {
		lock := NewLock(name, r.facts)
		p := permit{Row: r.row(lock)}
		for _, a := range lock.Nodes {
			p.token = max(p.token, a.Token)
		}
		if p.Owner != "" {
			held = append(held, p)
		}
	}
	return held
}

func (s Status) String() string {
	texts := make([]string, len(s))
	for i := range s {
		texts[i] = s[i].String()
	}
	return strings.Join(texts, "\n")
}

func (n *Name) String() string {
	var w strings.Builder
	if n.State != InUse || slices.ContainsFunc(n.Nodes, func(a Answer) bool { return a.note() != "" || a.holds() }) {
		nodes := text.NewTable("NODE", "HOLDER", "LARGEST TOKEN", "TTL LEFT", "LATENCY", "NOTE")
		for _, a := range n.Nodes {
			nodes.Add(a.cells()...)
		}
		w.WriteString(nodes.String())
	}
	if len(n.readers) > 0 {
		readers := text.NewTable("READER", "NODES", "TTL LEFT")
		for _, h := range n.readers {
			readers.Add(quorumlock.DescribeOwner(h.owner), n.ofAll(h.nodes), ttlText(h.ttl))
		}
		w.WriteString(readers.String())
	}
	fmt.Fprintln(&w, n.summary())
	if n.size > 0 || len(n.permits) > 0 {
		w.WriteString(n.semaphore())
	}
	if n.latched > 0 {
		fmt.Fprintln(&w, n.latch())
	}
	return w.String()
}

func (n *Name) ofAll(nodes int) string { return fmt.Sprintf("%d/%d", nodes, len(n.Nodes)) }

func (n *Name) semaphore() string {
	table := text.NewTable("PERMIT", "HOLDER", "NODES", "TTL LEFT", "HELD", "LARGEST TOKEN")
	held, waiting := 0, 0
	for _, p := range n.permits {
		table.Add(strconv.Itoa(p.Permit), quorumlock.DescribeOwner(p.Owner), n.ofAll(p.Backing), ttlText(time.Duration(p.TTL)), p.text(), tokenText(p.token))
		if p.State == Held {
			held++
		}
		waiting = p.Waiters // for any permit
	}
	sentence := fmt.Sprintf("semaphore %q: %d of %d permits held", n.Key, held, n.size)
	if n.size == 0 {
		sentence = fmt.Sprintf("semaphore %q: %s held; their number is not set on the nodes, programs configure it", n.Key, text.Plural(held, "permit"))
	}
	if partial := len(n.permits) - held; partial > 0 {
		sentence += fmt.Sprintf("; %d on too few nodes", partial)
	}
	if waiting > 0 {
		sentence += fmt.Sprintf("; %d waiting", waiting)
	}
	if len(n.permits) == 0 {
		return sentence + "\n"
	}
	return table.String() + sentence + "\n"
}

func (n *Name) latch() string {
	if n.counted >= n.latched {
		return fmt.Sprintf("latch %q: done, all %d have counted down", n.Key, n.latched)
	}
	return fmt.Sprintf("latch %q: %d of %d have counted down", n.Key, n.counted, n.latched)
}

func (a Answer) cells() []string {
	holder, ttl, latency, readers := "-", "-", "-", 0
	for _, h := range a.holders {
		if h.Reads {
			readers++
		}
	}
	if a.holds() {
		holder, ttl = quorumlock.DescribeOwner(a.Owner), ttlText(a.TTL)
	}
	if readers > 0 {
		holder = text.Plural(readers, "reader")
	}
	if a.Error == "" {
		latency = a.Latency.Round(time.Microsecond).String()
	}
	return []string{a.Node, holder, tokenText(a.Token), ttl, latency, cmp.Or(a.note(), "-")}
}

func tokenText(token uint64) string {
	if token == 0 {
		return "-"
	}
	return strconv.FormatUint(token, 10)
}

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
		said += ", for " + n.text() + " so far"
	}
	if n.State == Held && n.waiters > 0 {
		said += fmt.Sprintf("; %d waiting", n.waiters)
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
			holder = text.Plural(len(n.readers), "reader")
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
