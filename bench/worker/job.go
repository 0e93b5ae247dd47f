package worker

import "github.com/quorumlock/quorumlock/bench/cell"

// Env is the environment variable that makes a program that calls [Main] a worker.
const Env = "QUORUMLOCK_BENCH_WORKER"

// Job is what one worker is to do.
type Job struct {
	Cell cell.Cell `json:"cell"`
	// Index of the worker among the processes of the cell; it runs Callers of them, the first of
	// which is First.
	Index   int `json:"index"`
	First   int `json:"first"`
	Callers int `json:"callers"`
	// Holder is set for a worker without callers that holds the lock for which others wait.
	Holder bool `json:"holder,omitempty"`
	// Addresses of the nodes.
	Addresses []string `json:"addresses"`
	// WitnessFile is where the witness is.
	WitnessFile string `json:"witnessFile"`
}

// Ready is said when the client is connected and the callers can begin.
type Ready struct {
	Goroutines int64 `json:"goroutines"`
}

// Outcome is what a worker measured.
type Outcome struct {
	// Began is when measuring did, by [cell.Now], and Seconds how long it lasted.
	Began   int64   `json:"began"`
	Seconds float64 `json:"seconds"`
	// Ops ended in the time that is measured, AllOps at all.
	Ops          int64   `json:"ops"`
	AllOps       int64   `json:"allOps"`
	Failures     int64   `json:"failures"`
	FirstFailure string  `json:"firstFailure"`
	Unfinished   int64   `json:"unfinished"`
	Violations   int64   `json:"violations"`
	Switches     int64   `json:"switches"`
	Timeline     []int64 `json:"timeline"`
	// Pause is the longest time in which no operation ended, in nanoseconds.
	Pause int64 `json:"pauseNs"`
	// Grants are those of each caller in the time that is measured.
	Grants []int64 `json:"grants"`

	// Histograms, encoded.
	Acquire []byte `json:"acquire"`
	Release []byte `json:"release"`
	Delay   []byte `json:"delay"`

	// Mallocs, Bytes and CPU, in seconds, were used for AllOps.
	Mallocs    uint64  `json:"mallocs"`
	Bytes      uint64  `json:"bytes"`
	CPU        float64 `json:"cpu"`
	Goroutines int64   `json:"goroutines"`

	// Heap is that of all leases that are held.
	Heap     int64 `json:"heap"`
	Renewals int64 `json:"renewals"`
	// Lost are leases that were lost, of those that were to be held all the time.
	Lost int64 `json:"lost"`
}

// Closed is said when the client is closed.
type Closed struct {
	Goroutines int64  `json:"goroutines"`
	Error      string `json:"error,omitempty"`
}
