// Package report judges what a set of nodes says about locks, and shows it: as a status of single names, and as a list of
// all locks. It asks no node.
package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// The states of a lock, which the help of status explains.
const (
	Held = "held"
	Free = "free"
	// InUse means that the lock is free, but the semaphore or the latch of that name is in use.
	InUse      = "in_use"
	Recovering = "recovering"
	Partial    = "partial"
	// WrongType lasts until the lock is renamed or the key deleted.
	WrongType = "wrong_type"
	NoQuorum  = "no_quorum"
)

// Lock sums up what all nodes say about the lock of a name.
type Lock struct {
	Key, State string
	// Owner is the holder, or "".
	Owner          string
	Need, Answered int
	Nodes          []Answer
}

// Answer is what one node says about a lock.
type Answer struct {
	Node, Owner              string
	Token                    uint64
	TTL, Recovering, Latency time.Duration
	Error                    string
	// holders are the node's own words: the holder, or all readers.
	holders []node.Holder
	// unknown is why the node does not tell about a semaphore and a latch of that name.
	unknown string
	toBegin bool
	// wrongType is set if the key on the node is no lock.
	wrongType bool
}

// whole is a time that JSON has in milliseconds, and -1 for the TTL of a key that never expires.
type whole time.Duration

func (d whole) MarshalJSON() ([]byte, error) {
	if time.Duration(d) == node.NoExpiry {
		return []byte("-1"), nil
	}
	return json.Marshal(time.Duration(d).Milliseconds())
}

func ttlText(d time.Duration) string {
	if d == node.NoExpiry {
		return "never expires"
	}
	return d.Round(time.Millisecond).String()
}

// NewLock sums up what all nodes say about the lock of a name.
func NewLock(key string, facts *watch.Facts) *Lock {
	l := &Lock{Key: key, Need: len(facts.Nodes)/2 + 1}
	for i := range facts.Nodes {
		a := newAnswer(&facts.Nodes[i], key)
		if a.Error == "" || a.wrongType {
			l.Answered++
		}
		l.Nodes = append(l.Nodes, a)
	}
	if owner := l.foremost(); l.on(owner) >= l.Need {
		l.Owner = owner
	}
	l.State = l.judge()
	if count, _ := facts.Latch(key); l.State == Free && (count > 0 || len(facts.Permits(key)) > 0) {
		l.State = InUse
	}
	return l
}

func newAnswer(n *watch.Node, key string) Answer {
	lock := n.Locks[key]
	a := Answer{Node: n.Name, Latency: n.Latency, holders: lock.Holders, Recovering: n.Recovering, toBegin: n.Unmarked}
	if err := cmp.Or(n.Err, lock.Err); err != nil {
		a.Error, a.wrongType = text.OfNode(err), errors.Is(err, node.ErrWrongType)
	}
	if err := n.Kinds[key].Err; err != nil {
		a.unknown = text.Escaped(err.Error())
	}
	for _, h := range lock.Holders { // one at most, for one name, or all that read it
		if h.Reads {
			h.Owner, h.TTL = node.Readers, max(h.TTL, a.TTL)
		}
		a.Owner, a.Token, a.TTL = h.Owner, h.Token, h.TTL
	}
	return a
}

func (a Answer) holds() bool { return len(a.holders) > 0 }

// isFree reports whether the node answered that the lock is not held there. A recovering node may have forgotten a
// holder.
func (a Answer) isFree() bool { return a.Error == "" && !a.holds() }

func (a Answer) recovers() bool { return a.Recovering > 0 }

func (a Answer) neverExpires() bool { return a.holds() && a.TTL == node.NoExpiry }

// recovery describes how long the node recovers; "" if it does not.
func (a Answer) recovery() string {
	if !a.recovers() {
		return ""
	}
	return recovery(a.Recovering, !a.toBegin)
}

// recovery describes a recovery that ends after that time from now, or from its begin.
func recovery(left time.Duration, begun bool) string {
	if !begun {
		return fmt.Sprintf("recovers for %s from the first attempt at a lock on", text.Span(left))
	}
	return "recovers for another " + text.Span(left)
}

// Removal describes the result of a forced release on the node.
func (a Answer) Removal(key string) string {
	said := a.removal(key)
	if a.recovers() {
		said += "; the node " + a.recovery()
	}
	return said
}

func (a Answer) removal(key string) string {
	switch {
	case a.Error != "":
		return "not removed: " + a.Error
	case !a.holds():
		return "nothing there"
	}
	h := a.holders[0] // one at most, for one name, or the first of its readers
	who := quorumlock.DescribeOwner(h.Owner)
	if others := len(a.holders) - 1; others > 0 {
		who += " and " + text.Plural(others, "other reader")
	}
	if h.TTL == node.NoExpiry {
		return fmt.Sprintf("removed %q of %s, which never expired: not written by quorumlock", key, who)
	}
	return fmt.Sprintf("removed %q of %s, %v before it would have run out", key, who, h.TTL.Round(time.Millisecond))
}

func (l *Lock) judge() string {
	free := l.count(Answer.isFree)
	sure := l.count(func(a Answer) bool { return a.isFree() && !a.recovers() })
	switch {
	case l.WrongType() > len(l.Nodes)-l.Need:
		return WrongType
	case l.Answered < l.Need:
		return NoQuorum
	case l.Owner != "":
		return Held
	case sure >= l.Need:
		return Free
	case free >= l.Need:
		return Recovering
	default:
		return Partial
	}
}

// Owners returns all owners that any node reported, sorted.
func (l *Lock) Owners() (owners []string) {
	for _, a := range l.Nodes {
		for _, h := range a.holders {
			owners = append(owners, h.Owner)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// foremost returns the owner with the most nodes; "" if there is none.
func (l *Lock) foremost() (owner string) {
	for _, a := range l.Nodes {
		if a.holds() && l.on(a.Owner) > l.on(owner) {
			owner = a.Owner
		}
	}
	return owner
}

func (l *Lock) count(is func(Answer) bool) (count int) {
	for _, a := range l.Nodes {
		if is(a) {
			count++
		}
	}
	return count
}

// Taken counts the nodes that have a holder for the lock.
func (l *Lock) Taken() int { return l.count(Answer.holds) }

// on counts the nodes on which the owner holds the lock.
func (l *Lock) on(owner string) int {
	return l.count(func(a Answer) bool { return a.holds() && a.Owner == owner })
}

// WrongType counts the nodes where the key is no lock.
func (l *Lock) WrongType() int { return l.count(func(a Answer) bool { return a.wrongType }) }

// Opens returns the time until enough nodes have recovered; 0 if it is not a matter of time.
func (l *Lock) Opens() time.Duration { return l.opens(func(Answer) bool { return true }) }

func (l *Lock) opens(these func(Answer) bool) time.Duration {
	var left []time.Duration
	for _, a := range l.Nodes {
		if a.Error == "" && these(a) {
			left = append(left, a.Recovering)
		}
	}
	if len(left) < l.Need {
		return 0
	}
	slices.Sort(left)
	return left[l.Need-1]
}
