package cell

// Result is what one cell came to in one round. What is measured per operation covers all
// operations of the cell, also those before and behind the time that is measured;
// an operation is an acquire and its release.
type Result struct {
	Cell
	Round int `json:"round"`
	// Error is why there is nothing else.
	Error string `json:"error,omitempty"`

	// Seconds is how long was measured, and Ops how many operations ended meanwhile.
	Seconds float64 `json:"seconds"`
	Ops     int64   `json:"ops"`
	// Rate is operations a second.
	Rate float64 `json:"opsPerSecond"`
	// Failures are calls that returned errors, of which FirstFailure is one; Unfinished are
	// callers that had not come back when the worker gave up waiting for them.
	Failures     int64  `json:"failures"`
	FirstFailure string `json:"firstFailure,omitempty"`
	Unfinished   int64  `json:"unfinished"`
	// Violations are times that somebody got a lock that somebody else still held.
	Violations int64 `json:"violations"`
	// Timeline is how many operations ended in each tenth of a second.
	Timeline []int64 `json:"timeline,omitempty"`

	Acquire *Latency `json:"acquire,omitempty"`
	Release *Latency `json:"release,omitempty"`
	// Delay is from just before a release to the next grant.
	Delay *Latency `json:"delay,omitempty"`

	// Recovery is what came of a node that was restarted.
	Recovery *Recovery `json:"recovery,omitempty"`

	// Switches is how many times a second another caller than before got the lock. Shares
	// are the least and the most grants of a caller, relative to their mean.
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
	// SentRate is commands a second and node that clients sent.
	SentRate float64 `json:"sentPerSecondAndNode"`

	// Goroutines of all workers: before the load, after it with the client still open, and
	// after the client was closed.
	GoroutinesBefore int64 `json:"goroutinesBefore"`
	GoroutinesAfter  int64 `json:"goroutinesAfter"`
	GoroutinesClosed int64 `json:"goroutinesClosed"`
	// Keys that are left after the load, with all nodes back; and at the end, when up to a
	// TTL has passed.
	KeysAfter int `json:"keysAfter"`
	KeysLeft  int `json:"keysLeft"`

	// HeapPerLease is bytes; Renewals are those of single leases; Lost are leases that were lost, of
	// those that were to be held all the time.
	HeapPerLease       float64 `json:"heapPerLease,omitempty"`
	Renewals           int64   `json:"renewals,omitempty"`
	CommandsPerRenewal float64 `json:"commandsPerNodeAndRenewal,omitempty"`
	Lost               int64   `json:"leasesLost"`
}
