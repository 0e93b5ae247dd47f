package measure

// Kind says how the values of an instrument add up.
type Kind uint8

const (
	// Seconds is a histogram of durations.
	Seconds Kind = iota
	// Counter only grows.
	Counter
	// Level goes up and down by the values.
	Level
	// Gauge is the last value.
	Gauge
)

// Instrument is something that is measured. docs/observability.md has a row for each.
type Instrument struct {
	// Name has dots, as the conventions of OpenTelemetry want.
	Name string
	Kind Kind
	// Unit is a unit of UCUM: "s", or the counted thing in braces.
	Unit string
	// Bounds are the bounds of the buckets of a histogram.
	Bounds []float64
	// Text describes the instrument.
	Text string
	// Keys are the keys of all labels that a value may have.
	Keys []string
}

// The keys of labels.
const (
	keyError      = "error.type"
	keyGroup      = "quorumlock.lock.group"
	keyHandedOver = "quorumlock.lease.handed_over"
	keyEnd        = "quorumlock.lease.end"
	keySpare      = "quorumlock.lease.spare"
	keyNode       = "quorumlock.node.name"
	keyOperation  = "quorumlock.operation"
	keyVote       = "quorumlock.vote"
	keyHadMarker  = "quorumlock.node.had_marker"
)

// Bounds of histograms, in seconds.
var (
	// waits are for times that include waiting for other holders.
	waits = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	// trips are for times of exchanges with one node.
	trips = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	// holds are for times of leases.
	holds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}
)

// Instruments lists all instruments.
var Instruments = []*Instrument{
	acquireDuration, acquireWait, acquireRounds, leaseCount, leaseDuration, leaseLosses, leaseRenewals, leaseDegraded,
	nodeVotes, nodeDuration, nodeUp, nodeRecoveries, latchDuration,
}

var (
	acquireDuration = &Instrument{
		"quorumlock.acquire.duration", Seconds, "s", waits,
		"Time from a call that acquires to its lease, or its failure.",
		[]string{keyGroup, keyHandedOver, keyError},
	}
	acquireWait = &Instrument{
		"quorumlock.acquire.wait.duration", Seconds, "s", waits,
		"Time that a call that acquires was waiting for others, not for nodes.",
		[]string{keyGroup},
	}
	acquireRounds = &Instrument{
		"quorumlock.acquire.rounds", Counter, "{round}", nil,
		"Attempts to acquire, by outcome.",
		[]string{keyGroup, keyError},
	}
	leaseCount = &Instrument{
		"quorumlock.lease.count", Level, "{lease}", nil,
		"Leases that are held.",
		[]string{keyGroup},
	}
	leaseDuration = &Instrument{
		"quorumlock.lease.duration", Seconds, "s", holds,
		"Time that a lease was held, by how it ended.",
		[]string{keyGroup, keyEnd},
	}
	leaseLosses = &Instrument{
		"quorumlock.lease.losses", Counter, "{lease}", nil,
		"Leases that ended before they were released, or that their release did not find.",
		[]string{keyGroup, keyEnd},
	}
	leaseRenewals = &Instrument{
		"quorumlock.lease.renewals", Counter, "{renewal}", nil,
		"Renewals, by outcome.",
		[]string{keyGroup, keyError},
	}
	leaseDegraded = &Instrument{
		"quorumlock.lease.degraded", Level, "{lease}", nil,
		"Leases that not all nodes back, by how many more may fail.",
		[]string{keyGroup, keySpare},
	}
	nodeVotes = &Instrument{
		"quorumlock.node.votes", Counter, "{vote}", nil,
		"Votes of nodes on acquisitions and renewals.",
		[]string{keyNode, keyOperation, keyVote, keyError},
	}
	nodeDuration = &Instrument{
		"quorumlock.node.operation.duration", Seconds, "s", trips,
		"Time from sending an operation to a node to its vote.",
		[]string{keyNode, keyOperation, keyError},
	}
	nodeUp = &Instrument{
		"quorumlock.node.up", Gauge, "{node}", nil,
		"1 if a node answers, 0 if it is only probed.",
		[]string{keyNode},
	}
	nodeRecoveries = &Instrument{
		"quorumlock.node.recoveries", Counter, "{recovery}", nil,
		"Recoveries of nodes that are new or have lost their memory.",
		[]string{keyNode, keyHadMarker},
	}
	latchDuration = &Instrument{
		"quorumlock.latch.duration", Seconds, "s", waits,
		"Time of a call on a latch.",
		[]string{keyGroup, keyOperation, keyError},
	}
)
