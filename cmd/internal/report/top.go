package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// Top is a list of locks. The JSON is documented in the help of top: names are never changed, only added.
type Top struct {
	Need     int       `json:"need"`
	Answered int       `json:"answered"`
	Complete bool      `json:"complete"`
	Nodes    []topNode `json:"nodes"`
	Locks    []Row     `json:"locks"`
}

type topNode struct {
	Node       string  `json:"node"`
	Error      string  `json:"error"`
	Latency    float64 `json:"latency_ms"`
	Recovering whole   `json:"recovering_ms"`
	Locks      int     `json:"locks"`
	// Note says what could not be learnt from a node that answers.
	Note string `json:"note"`
}

// NewTop interprets the facts at a time. It shows given locks even if they are not held.
func NewTop(now time.Time, facts *watch.Facts, given []string) *Top {
	top := &Top{Need: len(facts.Nodes)/2 + 1, Complete: facts.Whole, Locks: []Row{}}
	for i := range facts.Nodes {
		n := newTopNode(&facts.Nodes[i])
		if n.Error == "" {
			top.Answered++
		}
		top.Nodes = append(top.Nodes, n)
	}
	r := &rows{now, facts}
	for _, name := range facts.Names {
		if lock := NewLock(name, facts); slices.Contains(given, name) || lock.isLock() {
			top.Locks = append(top.Locks, r.row(lock))
		}
	}
	slices.SortStableFunc(top.Locks, byName)
	return top
}

func newTopNode(n *watch.Node) topNode {
	t := topNode{Node: n.Name, Recovering: whole(n.Recovering), Latency: text.Milliseconds(n.Latency)}
	if n.Err != nil {
		t.Error = text.OfNode(n.Err)
	}
	for _, l := range n.Locks {
		if len(l.Holders) > 0 {
			t.Locks++
		}
	}
	var notes []string
	if n.Unmarked || n.Recovering > 0 {
		notes = append(notes, recovery(n.Recovering, !n.Unmarked))
	}
	if n.Unlisted != nil {
		notes = append(notes, "not searched for locks: "+text.Escaped(n.Unlisted.Error()))
	}
	if n.Uncounted != nil {
		notes = append(notes, "waiters not counted: "+text.Escaped(n.Uncounted.Error()))
	}
	if n.Err == nil {
		t.Note = strings.Join(notes, "; ")
	}
	return t
}

func byName(a, b Row) int {
	return cmp.Or(cmp.Compare(a.shown(), b.shown()), cmp.Compare(a.Permit, b.Permit), cmp.Compare(a.Key, b.Key))
}

func (t *Top) String() string {
	nodes := text.NewTable("NODE", "LATENCY", "LOCKS", "NOTE")
	for _, n := range t.Nodes {
		if n.Error != "" {
			nodes.Add(n.Node, "-", "-", n.Error)
			continue
		}
		nodes.Add(n.Node, fmt.Sprintf("%.1fms", n.Latency), strconv.Itoa(n.Locks), text.OrDash(n.Note))
	}
	locks := text.NewTable("LOCK", "NODES", "TTL", "HELD", "WAIT", "HOLDER", "PURPOSE")
	for i := range t.Locks {
		locks.Add(t.Locks[i].cells(len(t.Nodes))...)
	}
	return t.summary() + "\n\n" + nodes.String() + "\n" + locks.String()
}

func (t *Top) summary() string {
	held, waiting := 0, 0
	semaphores := make(map[string]bool)
	for _, l := range t.Locks {
		if l.State == Held {
			held++
		}
		if l.Permit < 0 || !semaphores[l.Semaphore] {
			waiting += l.Waiters
		}
		semaphores[l.Semaphore] = true
	}
	said := fmt.Sprintf("%d of %d nodes answer (%d needed), %s held, %d waiting", t.Answered, len(t.Nodes), t.Need, text.Plural(held, "lock"), waiting)
	if !t.Complete {
		said += "; not all keys were searched"
	}
	return said
}

func (r *Row) cells(nodes int) []string {
	name := text.Escaped(r.shown())
	if r.Permit >= 0 {
		name += " #" + strconv.Itoa(r.Permit)
	}
	wait := strconv.Itoa(r.Waiters)
	if r.Waiters >= watch.MostWaiters {
		wait += "+"
	}
	if r.Owner == "" {
		return []string{name, "-", "-", "-", wait, r.State, "-"}
	}
	ttl := fmt.Sprintf("%.1fs", time.Duration(r.TTL).Seconds())
	if time.Duration(r.TTL) == node.NoExpiry {
		ttl = "never ends"
	}
	return []string{name, fmt.Sprintf("%d/%d", r.Backing, nodes), ttl, r.text(), wait, r.who(), text.OrDash(text.Escaped(r.Purpose))}
}
