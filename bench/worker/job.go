package worker

import "github.com/quorumlock/quorumlock/bench/cell"

// Env is the environment variable that makes a program which calls [Main] a worker.
const Env = "QUORUMLOCK_BENCH_WORKER"

// Job tells one worker its part of a cell.
type Job struct {
	Cell cell.Cell `json:"cell"`
	// Index is the number of the worker among the processes of the cell. It runs Callers callers, numbered from
	// First.
	Index   int `json:"index"`
	First   int `json:"first"`
	Callers int `json:"callers"`
	// Holder marks a worker without callers. It holds the lock that the other workers wait for.
	Holder    bool     `json:"holder,omitempty"`
	Addresses []string `json:"addresses"`
	// WitnessFile is the path of the file that backs the [Witness].
	WitnessFile string `json:"witnessFile"`
}

// Ready says that the client is connected and that the callers can begin.
type Ready struct {
	Goroutines int64 `json:"goroutines"`
}

// Outcome is the measurement of one worker.
type Outcome struct {
	// Began is the begin of the measured time, by [cell.Now], and Seconds its length.
	Began   int64   `json:"began"`
	Seconds float64 `json:"seconds"`
	// Ops counts operations that ended in the measured time, AllOps all operations.
	Ops          int64   `json:"ops"`
	AllOps       int64   `json:"allOps"`
	Failures     int64   `json:"failures"`
	FirstFailure string  `json:"firstFailure"`
	Unfinished   int64   `json:"unfinished"`
	Violations   int64   `json:"violations"`
	Switches     int64   `json:"switches"`
	Timeline     []int64 `json:"timeline"`
	// Pause is the longest time in nanoseconds during which no operation ended.
	Pause int64 `json:"pauseNs"`
	// Grants counts the grants of each caller in the measured time.
	Grants []int64 `json:"grants"`

	// Encoded histograms.
	Acquire []byte `json:"acquire"`
	Release []byte `json:"release"`
	Delay   []byte `json:"delay"`

	// Mallocs, Bytes, and CPU in seconds are the cost of AllOps.
	Mallocs    uint64  `json:"mallocs"`
	Bytes      uint64  `json:"bytes"`
	CPU        float64 `json:"cpu"`
	Goroutines int64   `json:"goroutines"`

	// Heap is the heap used by all held leases.
	Heap     int64 `json:"heap"`
	Renewals int64 `json:"renewals"`
	// Lost counts the lost leases among those that should be held all the time.
	Lost int64 `json:"lost"`
}

// Closed says that the client is closed.
type Closed struct {
	Goroutines int64  `json:"goroutines"`
	Error      string `json:"error,omitempty"`
}
