package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The files that [Result.Save] writes.
const (
	// HistoryFile has the events of all clients, for [Read].
	HistoryFile = "history" + suffix
	// ViolationsFile describes the violations, with the events around them.
	ViolationsFile = "violations.txt"
	// VisualFile is porcupine's visualisation, for a browser.
	VisualFile = "violations.html"
)

// Save writes the history into a directory, which it creates if necessary. Unless the verdict is Ok, it also writes
// the violations. For illegal histories of locks and numbered permits, it adds a visualisation with the first
// violation of each and the leases around it. Save replaces files of the same names. The directory must not be one
// that ReadDir reads.
func (r *Result) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("faultinject: saving a history: %w", err)
	}
	files := []file{{HistoryFile, r.history.Encode}}
	if r.Verdict != Ok {
		files = append(files, file{ViolationsFile, r.describe})
	}
	if r.pictured() {
		files = append(files, file{VisualFile, r.visualize})
	}
	for _, f := range files {
		if err := f.save(dir); err != nil {
			return fmt.Errorf("faultinject: saving a history: %w", err)
		}
	}
	return nil
}

type file struct {
	name  string
	write func(io.Writer) error
}

func (f file) save(dir string) error {
	to, err := os.Create(filepath.Join(dir, f.name))
	if err != nil {
		return err
	}
	return errors.Join(f.write(to), to.Close())
}

const (
	// around is the number of events shown before and after one that proves a violation.
	around = 10
	// described limits the violations that are written in full.
	described = 100
)

// describe writes the violations as text.
func (r *Result) describe(to io.Writer) error {
	out := bufio.NewWriter(to)
	fmt.Fprintf(out, "%s\n%+v\n", r.Err(), r.Total)
	first, _ := r.history.span()
	for i, v := range r.Violations {
		fmt.Fprintf(out, "\n%d. %s\n", i+1, v)
		if i < described {
			r.history.surroundings(out, v, first)
		}
	}
	return out.Flush()
}

// surroundings writes the name's events around the events that prove the violation.
func (h *History) surroundings(out io.Writer, v Violation, start time.Duration) {
	var events []Event
	var proofs []int
	for _, e := range h.events {
		if e.about(v.subject()) {
			if v.provenBy(e) {
				proofs = append(proofs, len(events))
			}
			events = append(events, e)
		}
	}
	shown := 0
	for _, proof := range proofs {
		from, to := max(proof-around, shown), min(proof+around+1, len(events))
		if from > shown {
			fmt.Fprintln(out, "      ...")
		}
		for ; from < to; from++ {
			writeEvent(out, events[from], v.provenBy(events[from]), start)
		}
		shown = max(shown, to)
	}
}

func (v Violation) provenBy(e Event) bool {
	return slices.ContainsFunc(v.Events, func(p Event) bool { return p.Client == e.Client && p.Op == e.Op })
}

func writeEvent(out io.Writer, e Event, marked bool, start time.Duration) {
	mark, until := " ", "?"
	if marked {
		mark = ">"
	}
	if e.returned() {
		until = "+" + (e.Return - start).String()
	}
	fmt.Fprintf(out, "    %s +%v..%s %s\n", mark, e.Call-start, until, e)
}

const (
	// neighbours is the number of leases shown before and after a violating one.
	neighbours = 10
	// lastActs is the number of acts shown of a lease.
	lastActs = 20
	// pictures limits the names that are shown.
	pictures = 20
)

// pictured reports whether there is a violation that the visualisation shows.
func (r *Result) pictured() bool {
	_, _, leases := r.history.bySubject()
	return slices.ContainsFunc(r.Violations, func(v Violation) bool {
		_, ok := leases[v.subject()]
		return ok
	})
}

// visualize writes porcupine's page. Every subset of the leases and acts of a legal history is legal, so the part
// that is shown is illegal by itself.
func (r *Result) visualize(out io.Writer) error {
	first, last := r.history.span()
	_, _, leases := r.history.bySubject()
	rows := newRows()
	var parts [][]porcupine.Operation
	var notes []porcupine.Annotation
	var shownOf []subject
	for _, v := range r.Violations {
		of := v.subject()
		if _, ok := leases[of]; !ok || slices.Contains(shownOf, of) || len(shownOf) == pictures {
			continue
		}
		shownOf = append(shownOf, of)
		parts = append(parts, operations(v.window(leases[of]), last+1, rows))
		notes = append(notes, v.note(first))
	}
	shown := model()
	shown.Partition = func([]porcupine.Operation) [][]porcupine.Operation { return parts }
	_, info := porcupine.CheckOperationsVerbose(shown, nil, 0)
	info.AddAnnotations(notes)
	return porcupine.Visualize(shown, info, out)
}

// window returns the leases around the leases that prove the violation, each with its last acts. It returns all
// leases if the violation names none.
func (v Violation) window(leases []*lease) []*lease {
	var shown []*lease
	to := 0
	for i, l := range leases {
		if v.provenBy(l.grant) {
			from := max(i-neighbours, to)
			to = min(i+neighbours+1, len(leases))
			shown = append(shown, leases[from:to]...)
		}
	}
	if len(v.Events) == 0 {
		shown = leases
	}
	brief := make([]*lease, len(shown))
	for i, l := range shown {
		brief[i] = &lease{grant: l.grant, seen: l.seen[max(0, len(l.seen)-lastActs):], over: l.over, downgrade: l.downgrade}
	}
	return brief
}

// note marks the violation in the visualisation.
func (v Violation) note(start time.Duration) porcupine.Annotation {
	from, to := start, start
	for i, e := range v.Events {
		if i == 0 {
			from, to = e.Call, e.Return
		}
		from, to = min(from, e.Call), max(to, e.Return)
	}
	return porcupine.Annotation{
		Tag: v.subject().String(), Start: int64(from), End: int64(to), Description: string(v.Kind), Details: v.Text, BackgroundColor: "#ffb0b0",
	}
}
