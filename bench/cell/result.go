package cell

import (
	"time"

	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Outcome is the measurement of a worker, or the sum over several workers. An operation is an acquire and its release.
type Outcome struct {
	// Began is the begin of the measured time, by [Now], and Seconds its length.
	Began   int64   `json:"began"`
	Seconds float64 `json:"seconds"`
	// Ops counts operations that ended in the measured time, AllOps all operations.
	Ops    int64 `json:"ops"`
	AllOps int64 `json:"allOps"`
	// Failures counts calls that returned errors, and FirstFailure is one of these errors. Unfinished counts callers
	// that did not return before the worker stopped waiting for them.
	Failures     int64  `json:"failures"`
	FirstFailure string `json:"firstFailure"`
	Unfinished   int64  `json:"unfinished"`
	// Violations counts grants of a lock that another caller still held, and Switches grants to another caller than
	// the last one.
	Violations int64 `json:"violations"`
	Switches   int64 `json:"switches"`
	// Timeline counts the operations that ended in each [Step]. Pause is the longest time in nanoseconds during which
	// no operation ended.
	Timeline []int64 `json:"timeline"`
	Pause    int64   `json:"pauseNs"`
	// Grants counts the grants of each caller in the measured time.
	Grants []int64 `json:"grants"`

	// Encoded histograms. A delay runs from just before a release to the next grant.
	AcquireTimes []byte `json:"acquire"`
	ReleaseTimes []byte `json:"release"`
	DelayTimes   []byte `json:"delay"`

	// Mallocs, Bytes, and CPU in seconds are the cost of AllOps.
	Mallocs    uint64  `json:"mallocs"`
	Bytes      uint64  `json:"bytes"`
	CPU        float64 `json:"cpu"`
	Goroutines int64   `json:"goroutines"`

	// Heap is the heap used by all held leases. Renewals counts renewals of single leases. Lost counts leases that should
	// be held all the time, and were lost.
	Heap     int64 `json:"heap"`
	Renewals int64 `json:"renewals"`
	Lost     int64 `json:"lost"`
}

// Add adds the counts of another worker. It leaves out the histograms.
func (o *Outcome) Add(x Outcome) {
	if o.Began == 0 {
		o.Began = x.Began
	}
	if o.FirstFailure == "" {
		o.FirstFailure = x.FirstFailure
	}
	o.Seconds, o.Pause = max(o.Seconds, x.Seconds), max(o.Pause, x.Pause)
	o.Ops, o.AllOps = o.Ops+x.Ops, o.AllOps+x.AllOps
	o.Failures, o.Unfinished = o.Failures+x.Failures, o.Unfinished+x.Unfinished
	o.Violations, o.Switches = o.Violations+x.Violations, o.Switches+x.Switches
	o.Mallocs, o.Bytes, o.CPU = o.Mallocs+x.Mallocs, o.Bytes+x.Bytes, o.CPU+x.CPU
	o.Goroutines, o.Heap = o.Goroutines+x.Goroutines, o.Heap+x.Heap
	o.Renewals, o.Lost = o.Renewals+x.Renewals, o.Lost+x.Lost
	o.Grants = append(o.Grants, x.Grants...)
	if missing := len(x.Timeline) - len(o.Timeline); missing > 0 {
		o.Timeline = append(o.Timeline, make([]int64, missing)...)
	}
	for i, n := range x.Timeline {
		o.Timeline[i] += n
	}
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
	// Recovery is set if a node was restarted.
	Recovery *Recovery

	// Goroutines of all workers: before the load, and after the client was closed.
	GoroutinesBefore, GoroutinesClosed int64
	// Keys that remain: right after the load with all nodes back, and at the end, up to one TTL later.
	KeysAfter, KeysLeft int
}

// Recovery describes how a killed node came back, and the throughput meanwhile.
type Recovery struct {
	// Killed is when the node was killed, in seconds since measuring began. Back is the time from then until it
	// answered. Gives is the time from that answer until the node granted a lock. Never is set if it granted none
	// before the end.
	Killed, Back, Gives float64
	Never               bool
	// Before, During and After are operations per second: before the kill, from the kill until the node granted locks
	// again, and from then on.
	Before, During, After float64
}

// Step is the width of one step of a timeline.
const Step = 100 * time.Millisecond

// Phases computes the rates from a timeline of the whole measured time.
func (r *Recovery) Phases(timeline []int64) {
	killed, gives := r.Killed, r.Killed+r.Back+r.Gives
	end := float64(len(timeline)) * Step.Seconds()
	if r.Never {
		gives = end
	}
	r.Before, r.During, r.After = rate(timeline, 0, killed), rate(timeline, killed, gives), rate(timeline, gives, end)
}

// rate returns operations per second between two times, given in seconds. A step that lies partly between them counts
// in proportion.
func rate(timeline []int64, from, to float64) float64 {
	if to <= from {
		return 0
	}
	step, sum := Step.Seconds(), 0.0
	for i, n := range timeline {
		begin := float64(i) * step
		if part := min(to, begin+step) - max(from, begin); part > 0 {
			sum += float64(n) * part / step
		}
	}
	return sum / (to - from)
}
