package workload

import (
	"fmt"
	"sync"
	"time"
)

// Stage is a step in the life of a run of work that is done once.
type Stage string

// The stages.
const (
	// Ended: its function is about to return nil. From then on, others may be told of it.
	Ended Stage = "ended"
	// Succeeded: its client knows that it counts as done.
	Succeeded Stage = "succeeded"
	// Told: a client is told that it has been done.
	Told Stage = "told"
)

// Run is a run of work that is done once in a window, by the owner of a lease.
type Run struct {
	Name, Owner string
	Stage       Stage
	// Began, Ended and Window are set if it succeeded.
	Began, Ended, Window time.Duration
}

// Runs judges the runs of all clients. It is safe for concurrent use.
type Runs struct {
	mu   sync.Mutex
	runs []Run
}

// Note notes a stage of a run, and returns how that breaks a promise: another run has succeeded within its window, or the run
// has failed, and counts as done.
func (r *Runs) Note(run Run) (violation string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := false
	for _, other := range r.runs {
		first, next := run, other
		if other.Began < run.Began {
			first, next = other, run
		}
		switch {
		case other.Name != run.Name:
		case other.Stage == Ended && other.Owner == run.Owner:
			known = true
		case run.Stage == Succeeded && other.Stage == Succeeded && next.Began < first.Ended+first.Window*98/100:
			violation = fmt.Sprintf("%s was done from %v to %v by %s, and again from %v to %v by %s",
				run.Name, first.Began, first.Ended, first.Owner, next.Began, next.Ended, next.Owner)
		}
	}
	if run.Stage != Ended && !known {
		violation = fmt.Sprintf("%s counts as done by %s, whose run failed", run.Name, run.Owner)
	}
	r.runs = append(r.runs, run)
	return violation
}

// Counts returns how many runs came to each stage.
func (r *Runs) Counts() map[Stage]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[Stage]int)
	for _, run := range r.runs {
		counts[run.Stage]++
	}
	return counts
}
