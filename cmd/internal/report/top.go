package report

import (
	"cmp"
	"fmt"
	"maps"
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
	Node       string `json:"node"`
	Error      string `json:"error"`
	Latency    exact  `json:"latency_ms"`
	Recovering whole  `json:"recovering_ms"`
	Locks      int    `json:"locks"`
	// Note says what could not be learnt from a node that answers.
	Note string `json:"note"`
}

// Topper makes lists of locks, one after the other. It remembers since when a lock without a token was seen.
type Topper struct {
	// Given are the locks that are shown even if they are not held.
	Given []string
	known holds
}

// Report interprets the facts at a time.
func (t *Topper) Report(now time.Time, facts *watch.Facts) *Top {
	top := &Top{Need: len(facts.Nodes)/2 + 1, Complete: facts.Whole, Locks: []Row{}}
	for i := range facts.Nodes {
		n := newTopNode(&facts.Nodes[i])
		if n.Error == "" {
			top.Answered++
		}
		top.Nodes = append(top.Nodes, n)
	}
	r := newRows(now, facts, t.known)
	for _, name := range facts.Names {
		if lock := NewLock(name, facts); slices.Contains(t.Given, name) || lock.isLock() {
			top.Locks = append(top.Locks, r.row(lock))
		}
	}
	if top.Answered < top.Need { // an unreachable lock may still have its holder
		maps.Copy(r.seen, t.known)
	}
	t.known = r.seen
	slices.SortStableFunc(top.Locks, byName)
	return top
}

func newTopNode(n *watch.Node) topNode {
	t := topNode{Node: n.Name, Recovering: whole(n.Recovering), Latency: exact(n.Latency)}
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

// Screen is where a list is shown.
type Screen struct {
	// Width and Height are its size; 0 for no bound.
	Width, Height int
	Colour        bool
}

// mostName limits the letters of a lock's name on a screen, to leave room for the other columns.
const mostName = 40

// Lines returns the list's lines. It cuts off the locks where the screen ends.
func (t *Top) Lines(s Screen) []string {
	all := append([]text.Line{{Text: t.summary(), Colour: text.Heading}, {}}, t.nodeTable().Lines()...)
	all = append(all, text.Line{})
	locks := t.lockTable(s).Lines()
	if room := s.Height - len(all); s.Height > 0 && len(locks) > room {
		shown := max(room-1, 0)
		hidden := len(locks) - max(shown, 1) // but for the heading
		locks = append(locks[:shown:shown], text.Line{Text: fmt.Sprintf("... and %d more", hidden)})
	}
	all = append(all, locks...)
	if s.Height > 0 {
		all = all[:min(len(all), s.Height)]
	}
	lines := make([]string, len(all))
	for i, l := range all {
		if s.Width > 0 {
			l.Text = text.Shortened(l.Text, s.Width)
		}
		lines[i] = text.Painted(l.Text, l.Colour, s.Colour)
	}
	return lines
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
		said += "; not all keys were searched yet"
	}
	return said
}

func (t *Top) nodeTable() *text.Table {
	table := text.NewTable("NODE", "LATENCY", "LOCKS", "NOTE")
	for _, n := range t.Nodes {
		latency, locks, note, colour := fmt.Sprintf("%.1fms", text.Milliseconds(time.Duration(n.Latency))), strconv.Itoa(n.Locks), text.OrDash(n.Note), ""
		switch {
		case n.Error != "":
			latency, locks, note, colour = "-", "-", n.Error, text.Bad
		case n.Note != "":
			colour = text.Uneasy
		}
		table.Add(colour, n.Node, latency, locks, note)
	}
	return table
}

func (t *Top) lockTable(s Screen) *text.Table {
	table := text.NewTable("LOCK", "NODES", "TTL", "HELD", "WAIT", "HOLDER", "PURPOSE")
	for i := range t.Locks {
		l := &t.Locks[i]
		table.Add(l.colour(), l.cells(s, len(t.Nodes))...)
	}
	return table
}

func (r *Row) colour() string {
	switch r.State {
	case Held, Free, InUse:
		return ""
	case NoQuorum, WrongType:
		return text.Bad
	default:
		return text.Uneasy
	}
}

func (r *Row) cells(s Screen, nodes int) []string {
	name := text.Escaped(r.shown())
	if s.Width > 0 {
		name = text.Shortened(name, mostName)
	}
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
