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
	// ViolationsFile says what is wrong, with the events around it.
	ViolationsFile = "violations.txt"
	// VisualFile is porcupine's visualisation, for a browser.
	VisualFile = "violations.html"
)

// Save writes the history into a directory, which it makes if need be; and unless the
// verdict is Ok, what is wrong. The visualisation, which there is for illegal histories of locks
// and of permits with numbers, shows the first violation of each with the leases around it. Files
// of the same names are replaced. The directory must not be one that ReadDir reads.
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
	// around is how many events before and after are shown with one that proves something.
	around = 10
	// described is how many violations are written down in full.
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

// surroundings writes the events of the name around those that prove the violation.
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
	// neighbours is how many leases before and after are shown with one that violates.
	neighbours = 10
	// lastActs is how many of the acts of a lease are shown.
	lastActs = 20
	// pictures is how many names are shown.
	pictures = 20
)

// pictured reports whether anything is wrong that the visualisation shows.
func (r *Result) pictured() bool {
	_, _, leases := r.history.bySubject()
	return slices.ContainsFunc(r.Violations, func(v Violation) bool {
		_, ok := leases[v.subject()]
		return ok
	})
}

// visualize writes porcupine's page. Of a history that is legal, every choice of leases
// and acts is, so what is shown is illegal by itself.
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

// window are the leases around those that prove the violation, each with its last acts;
// all leases if it is not known where it is.
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
