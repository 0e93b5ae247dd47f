package cell

// Result is the result of one cell in one round. Costs per operation cover all operations of the cell, including
// those outside the measured time. An operation is an acquire and its release.
type Result struct {
	Cell
	Round int `json:"round"`
	// Error says why nothing was measured. All other fields are zero then.
	Error string `json:"error,omitempty"`

	// Seconds is the length of the measured time, and Ops the operations that ended in it.
	Seconds float64 `json:"seconds"`
	Ops     int64   `json:"ops"`
	// Rate is operations per second.
	Rate float64 `json:"opsPerSecond"`
	// Failures counts calls that returned errors, and FirstFailure is one of these errors. Unfinished counts callers
	// that did not return before the worker stopped waiting for them.
	Failures     int64  `json:"failures"`
	FirstFailure string `json:"firstFailure,omitempty"`
	Unfinished   int64  `json:"unfinished"`
	// Violations counts grants of a lock that another caller still held.
	Violations int64 `json:"violations"`
	// Timeline counts the operations that ended in each tenth of a second.
	Timeline []int64 `json:"timeline,omitempty"`

	Acquire *Latency `json:"acquire,omitempty"`
	Release *Latency `json:"release,omitempty"`
	// Delay runs from just before a release to the next grant.
	Delay *Latency `json:"delay,omitempty"`

	// Recovery is set if a node was restarted.
	Recovery *Recovery `json:"recovery,omitempty"`

	// Switches counts, per second, grants to another caller than the last one. Shares are the least and the most
	// grants of any caller, relative to the mean.
	Switches float64 `json:"switchesPerSecond,omitempty"`
	ShareMin float64 `json:"shareMin,omitempty"`
	ShareMax float64 `json:"shareMax,omitempty"`

	Allocs   float64 `json:"allocsPerOp"`
	Bytes    float64 `json:"bytesPerOp"`
	Client   float64 `json:"clientMicrosPerOp"`
	Servers  float64 `json:"serverMicrosPerOp"`
	Commands float64 `json:"commandsPerOp"`
	Scripts  float64 `json:"scriptsPerOp"`
	Sent     float64 `json:"sentPerOp"`
	// SentRate is the number of commands that clients sent, per second and node.
	SentRate float64 `json:"sentPerSecondAndNode"`

	// Goroutines of all workers: before the load, after it while the client is still open, and after the client was
	// closed.
	GoroutinesBefore int64 `json:"goroutinesBefore"`
	GoroutinesAfter  int64 `json:"goroutinesAfter"`
	GoroutinesClosed int64 `json:"goroutinesClosed"`
	// Keys that remain: right after the load with all nodes back, and at the end, up to one TTL later.
	KeysAfter int `json:"keysAfter"`
	KeysLeft  int `json:"keysLeft"`

	// HeapPerLease is in bytes. Renewals counts renewals of single leases. Lost counts the lost leases among those
	// that should be held all the time.
	HeapPerLease       float64 `json:"heapPerLease,omitempty"`
	Renewals           int64   `json:"renewals,omitempty"`
	CommandsPerRenewal float64 `json:"commandsPerNodeAndRenewal,omitempty"`
	Lost               int64   `json:"leasesLost"`
}
