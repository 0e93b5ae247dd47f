package cell

import (
	"cmp"
	"time"

	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Outcome is the measurement of a worker, or the sum over several workers. An operation is an acquire and its release.
type Outcome struct {
	// Seconds is the length of the measured time.
	Seconds float64 `json:"seconds"`
	// Ops counts operations that ended in the measured time, AllOps all operations.
	Ops    int64 `json:"ops"`
	AllOps int64 `json:"allOps"`
	// Failures counts calls that returned errors, and FirstFailure is one of these errors. Unfinished counts callers
	// that did not return before the worker stopped waiting for them.
	Failures     int64  `json:"failures"`
	FirstFailure string `json:"firstFailure"`
	Unfinished   int64  `json:"unfinished"`
	// GaveUp counts calls whose patience ended.
	GaveUp int64 `json:"gaveUp"`
	// Violations counts grants of a lock that another caller still held.
	Violations int64 `json:"violations"`
	// Grants counts the grants of each caller in the measured time.
	Grants []int64 `json:"grants"`

	// Encoded histograms. A delay runs from just before a release to the next grant.
	AcquireTimes []byte `json:"acquire"`
	ReleaseTimes []byte `json:"release"`
	DelayTimes   []byte `json:"delay"`

	// Mallocs, CPU (in seconds), Transfers (calls that read or write) and Wakeups (of any thread that slept) are the cost
	// of AllOps.
	Mallocs    uint64  `json:"mallocs"`
	CPU        float64 `json:"cpu"`
	Transfers  int64   `json:"transfers"`
	Wakeups    int64   `json:"wakeups"`
	Goroutines int64   `json:"goroutines"`

	// Heap is the heap used by all held leases. Renewals counts renewals of single leases. Lost counts leases that should
	// be held all the time, and were lost.
	Heap     int64 `json:"heap"`
	Renewals int64 `json:"renewals"`
	Lost     int64 `json:"lost"`
}

// Add adds the counts of another worker. It leaves out the histograms.
func (o *Outcome) Add(x Outcome) {
	o.FirstFailure = cmp.Or(o.FirstFailure, x.FirstFailure)
	o.Seconds = max(o.Seconds, x.Seconds)
	o.Ops, o.AllOps, o.GaveUp = o.Ops+x.Ops, o.AllOps+x.AllOps, o.GaveUp+x.GaveUp
	o.Failures, o.Unfinished = o.Failures+x.Failures, o.Unfinished+x.Unfinished
	o.Violations, o.Mallocs, o.CPU = o.Violations+x.Violations, o.Mallocs+x.Mallocs, o.CPU+x.CPU
	o.Transfers, o.Wakeups = o.Transfers+x.Transfers, o.Wakeups+x.Wakeups
	o.Goroutines, o.Heap = o.Goroutines+x.Goroutines, o.Heap+x.Heap
	o.Renewals, o.Lost = o.Renewals+x.Renewals, o.Lost+x.Lost
	o.Grants = append(o.Grants, x.Grants...)
}

// Result is the result of one cell in one round.
type Result struct {
	Cell
	// Outcome is the sum over all workers.
	Outcome
	Round int
	// Error says why nothing was measured. All other fields are zero then.
	Error string
	// Work is the work of the servers in the time Passed.
	Work   cluster.Work
	Passed time.Duration

	Acquire, Release, Delay *Latency

	// Goroutines of all workers: before the load, and after the client was closed.
	GoroutinesBefore, GoroutinesClosed int64
	// KeysLeft counts the keys that remain with all nodes back, up to one TTL later.
	KeysLeft int
}
