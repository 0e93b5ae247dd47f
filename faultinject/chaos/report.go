package chaos

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// Report is the result of a run.
type Report struct {
	// Counts has the totals of all leases, and Objects the totals of each object.
	Counts  history.Counts
	Objects map[history.Object]history.Counts
	// Granted counts the acquisitions of each kind of object. A joint lease counts for each name.
	Granted map[Kind]int
	// Drawn counts how often clients used each operation and option. Clients that were killed do not count.
	Drawn workload.Tally
	// Once counts the runs of work that is done once, by their stages.
	Once map[workload.Stage]int
	// Late counts writes that the resource refused because of a stale token.
	Late int
	// Forgotten counts the latches that a majority may have forgotten, of Latches in all. The others had to keep
	// every promise; these only had to be not done too early.
	Forgotten, Latches int
	// Violations describe the broken promises. There must be none.
	Violations []string
	// Slow describes progress that came late. There must be none on a machine with time to spare.
	Slow []string
	// Lags has, for each instant of the plan, the largest delay of the begin or the end of a step behind it.
	Lags map[time.Duration]time.Duration
	// History has the calls of every client.
	History *history.History
	// Began is when the plan began, and Over when the last fault was repaired, by the clock of the history.
	Began, Over time.Duration
}

// tally counts what each kind of object had, and the latches that may be forgotten.
func (a *activeRun) tally(h *history.History, result *history.Result) {
	for object, counts := range result.Objects {
		a.report.Granted[kindOf(object)] += counts.Granted
		if object.Of == history.Latch {
			a.report.Latches++
			if a.forgotten(h, object) {
				a.report.Forgotten++
			}
		}
	}
	a.report.Once = a.resource.runs.Counts()
	for _, n := range a.resource.refused {
		a.report.Late += n
	}
}

func (r *Report) violated(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

func (r *Report) slow(format string, args ...any) {
	r.Slow = append(r.Slow, fmt.Sprintf(format, args...))
}
