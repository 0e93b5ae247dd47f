package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

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

// line is a line of text and its colour.
type line struct{ text, colour string }

// Colours of lines, as terminals number them.
const (
	colourHeading = "1"
	colourBad     = "31"
	colourUneasy  = "33"
)

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
		lines[i] = t.painted(l)
	}
	return lines
}

func (t *topText) painted(l line) string {
	text := l.text
	if t.width > 0 {
		text = shortenedTo(text, t.width)
	}
	if !t.colour || l.colour == "" || text == "" {
		return text
	}
	return "\x1b[" + l.colour + "m" + text + "\x1b[0m"
}

// shortenedTo cuts longer text to the given number of letters, with a mark.
func shortenedTo(text string, letters int) string {
	if utf8.RuneCountInString(text) <= letters {
		return text
	}
	return string([]rune(text)[:max(letters-1, 0)]) + "…"
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
	rows := [][]string{{"NODE", "LATENCY", "LOCKS", "NOTE"}}
	colours := []string{""}
	for _, n := range r.Nodes {
		latency, locks, note, colour := fmt.Sprintf("%.1fms", n.Latency), strconv.Itoa(n.Locks), orDash(n.Note), ""
		switch {
		case n.Error != "":
			latency, locks, note, colour = "-", "-", n.Error, colourBad
		case n.Note != "":
			colour = colourUneasy
		}
		rows, colours = append(rows, []string{n.Node, latency, locks, note}), append(colours, colour)
	}
	return table(rows, colours)
}

func (t *topText) locks(r *topReport) []line {
	rows := [][]string{{"LOCK", "NODES", "TTL", "HELD", "WAIT", "HOLDER", "PURPOSE"}}
	colours := []string{""}
	for i := range r.Locks {
		l := &r.Locks[i]
		rows, colours = append(rows, t.row(l, len(r.Nodes))), append(colours, l.colour())
	}
	return table(rows, colours)
}

func (l *topLock) colour() string {
	switch l.State {
	case stateHeld, stateFree:
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

func (l *topLock) heldText() string {
	text := l.held.Truncate(time.Second).String()
	switch {
	case l.Since == "":
		return "-"
	case l.AtLeast:
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

// table lays out rows in columns.
func table(rows [][]string, colours []string) []line {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a buffer takes everything
	lines := make([]line, len(rows))
	for i, row := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		lines[i] = line{strings.TrimRight(row, " "), colours[i]}
	}
	return lines
}
