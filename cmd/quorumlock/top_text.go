package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// topText lays out a report.
type topText struct {
	// width and height are the size of the screen; 0 for no bound.
	width, height int
	colour        bool
}

// mostName limits the letters of a lock's name on a screen, to leave room for the other columns.
const mostName = 40

// lines returns the report's lines. It cuts off the locks where the screen ends.
func (t *topText) lines(r *topReport) []string {
	all := append([]line{{topSummary(r), colourHeading}, {}}, t.nodes(r)...)
	all = append(all, line{})
	locks := t.locks(r)
	if room := t.height - len(all); t.height > 0 && len(locks) > room {
		shown := max(room-1, 0)
		hidden := len(locks) - max(shown, 1) // but for the heading
		locks = append(locks[:shown:shown], line{text: fmt.Sprintf("... and %d more", hidden)})
	}
	all = append(all, locks...)
	if t.height > 0 {
		all = all[:min(len(all), t.height)]
	}
	lines := make([]string, len(all))
	for i, l := range all {
		if t.width > 0 {
			l.text = shortenedTo(l.text, t.width)
		}
		lines[i] = painted(l.text, l.colour, t.colour)
	}
	return lines
}

func topSummary(r *topReport) string {
	held, waiting := 0, 0
	semaphores := make(map[string]bool)
	for _, l := range r.Locks {
		if l.State == stateHeld {
			held++
		}
		if l.Permit < 0 || !semaphores[l.Semaphore] {
			waiting += l.Waiters
		}
		semaphores[l.Semaphore] = true
	}
	text := fmt.Sprintf("%d of %d nodes answer (%d needed), %s held, %d waiting", r.Answered, len(r.Nodes), r.Need, plural(held, "lock"), waiting)
	if !r.Complete {
		text += "; not all keys were searched yet"
	}
	return text
}

func (t *topText) nodes(r *topReport) []line {
	rows := newTable("NODE", "LATENCY", "LOCKS", "NOTE")
	for _, n := range r.Nodes {
		latency, locks, note, colour := fmt.Sprintf("%.1fms", n.Latency), strconv.Itoa(n.Locks), orDash(n.Note), ""
		switch {
		case n.Error != "":
			latency, locks, note, colour = "-", "-", n.Error, colourBad
		case n.Note != "":
			colour = colourUneasy
		}
		rows.add(colour, n.Node, latency, locks, note)
	}
	return rows.lines()
}

func (t *topText) locks(r *topReport) []line {
	rows := newTable("LOCK", "NODES", "TTL", "HELD", "WAIT", "HOLDER", "PURPOSE")
	for i := range r.Locks {
		l := &r.Locks[i]
		rows.add(l.colour(), t.row(l, len(r.Nodes))...)
	}
	return rows.lines()
}

func (l *topLock) colour() string {
	switch l.State {
	case stateHeld, stateFree, stateInUse:
		return ""
	case stateNoQuorum, stateWrongType:
		return colourBad
	default:
		return colourUneasy
	}
}

func (t *topText) row(l *topLock, nodes int) []string {
	name := escaped(l.shown())
	if t.width > 0 {
		name = shortenedTo(name, mostName)
	}
	if l.Permit >= 0 {
		name += " #" + strconv.Itoa(l.Permit)
	}
	wait := strconv.Itoa(l.Waiters)
	if l.Waiters >= watch.MostWaiters {
		wait += "+"
	}
	if l.Owner == "" {
		return []string{name, "-", "-", "-", wait, l.State, "-"}
	}
	ttl := fmt.Sprintf("%.1fs", l.ttl.Seconds())
	if l.ttl == node.NoExpiry {
		ttl = "never ends"
	}
	return []string{name, fmt.Sprintf("%d/%d", l.Backing, nodes), ttl, l.heldText(), wait, l.who(), orDash(escaped(l.Purpose))}
}

func (h *heldFor) heldText() string {
	text := h.held.Truncate(time.Second).String()
	switch {
	case h.Since == "":
		return "-"
	case h.AtLeast:
		return ">" + text
	default:
		return text
	}
}

// who describes the holder: where it runs, or else its id.
func (l *topLock) who() string {
	who := escaped(l.Holder)
	switch {
	case l.Readers > 0:
		who = plural(l.Readers, "reader")
	case l.Owner == node.Readers:
		who = "readers"
	case who == "":
		who = escaped(l.Owner)
	}
	if l.State != stateHeld {
		who += " (" + strings.ReplaceAll(l.State, "_", " ") + ")"
	}
	return who
}
