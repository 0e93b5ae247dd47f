package chaos

import (
	"cmp"
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
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// Report is the result of a run.
type Report struct {
	Took time.Duration
	// Faults counts the faults of each kind.
	Faults map[faultinject.Fault]int
	// Counts has the totals of all leases, and Objects the totals of each object.
	Counts  history.Counts
	Objects map[history.Object]history.Counts
	// Kinds has the totals for each kind of object.
	Kinds map[Kind]*Tally
	// Drawn counts how often clients used each operation and option. Clients that were killed do not count.
	Drawn workload.Tally
	// Late counts writes that the resource refused because of a stale token.
	Late int
	// Forgotten counts the latches that a majority may have forgotten, of Latches in all. The others had to keep
	// every promise; these only had to be not done too early.
	Forgotten, Latches int
	// Recovered is the time after the last fault until every name had been acquired again.
	Recovered time.Duration
	// Violations describe the broken promises. There must be none.
	Violations []string
	// Slow describes progress that came late. There must be none on a machine with time to spare.
	Slow []string
	// Lag is the largest delay of the begin or the end of a step behind its time in the plan. lags has the largest of
	// each instant of the plan.
	Lag  time.Duration
	lags map[time.Duration]time.Duration
	// History has the calls of every client.
	History *history.History
	// Began is when the plan began, and Over when the last fault was repaired, by the clock of the history.
	Began, Over time.Duration
}

// Tally has the totals of one kind of object, over all names, as [history.Counts] has them. A joint lease counts for each
// name.
type Tally struct {
	Granted, Refused, Lost, Acts, Late, Violations int
}

// add adds the counts of one object.
func (t *Tally) add(c history.Counts) {
	t.Granted += c.Granted
	t.Refused += c.Refused
	t.Lost += c.Lost
	t.Acts += c.Acts
}

// tally counts for each kind.
func (a *activeRun) tally(h *history.History, result *history.Result) {
	for _, kind := range a.Kinds {
		a.report.Kinds[kind] = &Tally{}
	}
	for object, counts := range result.Objects {
		a.report.Kinds[kindOf(object)].add(counts)
		if object.Of == history.Latch {
			a.report.Latches++
			if a.forgotten(h, object) {
				a.report.Forgotten++
			}
		}
	}
	for name, n := range a.resource.refused {
		name, _, slot := strings.Cut(name, "#")
		of := history.Lock
		if slot {
			of = history.Semaphore
		}
		a.report.Kinds[kindOf(history.Object{Of: of, Name: name})].Late += n
		a.report.Late += n
	}
}

// violatedBy notes a violation that is of one kind of objects.
func (r *Report) violatedBy(kind Kind, format string, args ...any) {
	r.Kinds[kind].Violations++
	r.violated("%s: %s", kind, fmt.Sprintf(format, args...))
}

func (r *Report) violated(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

func (r *Report) slow(format string, args ...any) {
	r.Slow = append(r.Slow, fmt.Sprintf(format, args...))
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
	byName := func(a, b history.Object) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Name, b.Name)) }
	for _, object := range slices.SortedFunc(maps.Keys(r.Objects), byName) {
		if n := r.Objects[object]; object.Of != history.Latch {
			row(fmt.Sprintf("  of %s %s", object.Of, object.Name), fmt.Sprintf("%d, the longest time without one %v", n.Granted, n.Silence.Round(time.Millisecond)))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		t := r.Kinds[kind]
		row(string(kind), fmt.Sprintf("%d acquired, %d attempts failed, %d lost, %d acts, %d late writes refused, %d violations",
			t.Granted, t.Refused, t.Lost, t.Acts, t.Late, t.Violations))
	}
	if r.Latches > 0 {
		row("latches", fmt.Sprintf("%d, of which a majority may have forgotten %d", r.Latches, r.Forgotten))
	}
	total := 0
	for _, fault := range slices.Sorted(maps.Keys(r.Faults)) {
		total += r.Faults[fault]
	}
	row("faults", total)
	for _, fault := range slices.Sorted(maps.Keys(r.Faults)) {
		row("  "+string(fault), r.Faults[fault])
	}
	row("all acquired again after", r.Recovered.Round(time.Millisecond))
	row("violations", len(r.Violations))
	row("slow", len(r.Slow))
	_ = table.Flush()
	for _, what := range r.Slow {
		_, _ = fmt.Fprintln(out, "SLOW:", what)
	}
	for _, v := range r.Violations {
		_, _ = fmt.Fprintln(out, "VIOLATION:", v)
	}
}

// LagAt is the largest delay of the steps that the plan begins or ends at an instant.
func (r *Report) LagAt(due time.Duration) time.Duration { return r.lags[due] }

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
