package chaos

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Report is what came of a run.
type Report struct {
	Took time.Duration
	// Faults says how many of each kind there were.
	Faults map[faultinject.Fault]int
	// Counts are of all names together, and Names of each.
	Counts history.Counts
	Names  map[string]history.Counts
	// Late counts the writes that the resource refused, as their token was stale.
	Late int
	// Recovered is how long after the last fault every name had been had again.
	Recovered time.Duration
	// Violations are the promises that were broken, in words. There must be none.
	Violations []string
	// History has what every client did, for further questions.
	History *history.History
	// Began is when the plan began, and Over when the last fault was mended, by the clock
	// of the history.
	Began, Over time.Duration
}

func (r *Report) violated(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

// Err is an error that lists the violations, or nil.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	return errors.New("chaos: " + strings.Join(r.Violations, "\n"))
}

// Print writes the report as a table.
func (r *Report) Print(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what string, value any) { _, _ = fmt.Fprintf(table, "%s\t%v\n", what, value) }
	row("took", r.Took.Round(100*time.Millisecond))
	row("acquisitions", r.Counts.Granted)
	for _, name := range slices.Sorted(maps.Keys(r.Names)) {
		n := r.Names[name]
		row("  of "+name, fmt.Sprintf("%d, the longest time without one %v", n.Granted, n.Silence.Round(time.Millisecond)))
	}
	row("attempts that failed", r.Counts.Refused)
	row("leases lost", r.Counts.Lost)
	row("looks at a valid lease", r.Counts.Acts)
	row("late writes refused", r.Late)
	total := 0
	for _, fault := range slices.Sorted(maps.Keys(r.Faults)) {
		total += r.Faults[fault]
	}
	row("faults", total)
	for _, fault := range slices.Sorted(maps.Keys(r.Faults)) {
		row("  "+string(fault), r.Faults[fault])
	}
	row("had again after the last", r.Recovered.Round(time.Millisecond))
	row("violations", len(r.Violations))
	_ = table.Flush()
	for _, v := range r.Violations {
		_, _ = fmt.Fprintln(out, "VIOLATION:", v)
	}
}

// Grants counts the leases that clients whose name starts with a prefix got between two
// instants of the plan.
func (r *Report) Grants(client string, from, to time.Duration) int {
	n := 0
	for _, e := range r.History.Events() {
		at := e.Return - r.Began
		if e.Kind == history.Acquire && e.Token != 0 && strings.HasPrefix(e.Client, client) && from <= at && at <= to {
			n++
		}
	}
	return n
}

// Refusals are why clients got no lease between two instants of the plan, each reason once.
func (r *Report) Refusals(from, to time.Duration) []string {
	reasons := make(map[string]bool)
	for _, e := range r.History.Events() {
		if at := e.Return - r.Began; e.Kind == history.Acquire && e.Error != "" && from <= at && at <= to {
			reasons[e.Error] = true
		}
	}
	return slices.Sorted(maps.Keys(reasons))
}
