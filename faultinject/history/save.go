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
)

// The files that [Result.Save] writes.
const (
	// HistoryFile has the events of all clients, for [Read].
	HistoryFile = "history" + suffix
	// ViolationsFile describes the violations, with the events around them.
	ViolationsFile = "violations.txt"
)

// Save writes the history into a directory, which it creates if necessary. Unless the verdict is Ok, it also writes
// the violations. Save replaces files of the same names. The directory must not be one that ReadDir reads.
func (r *Result) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("faultinject: saving a history: %w", err)
	}
	files := []file{{HistoryFile, r.history.Encode}}
	if r.Verdict != Ok {
		files = append(files, file{ViolationsFile, r.describe})
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
