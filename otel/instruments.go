package quorumotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
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

// instruments are all measurements; docs/observability.md has a row for each.
type instruments struct {
	acquireDuration metric.Float64Histogram
	acquireWait     metric.Float64Histogram
	acquireRounds   metric.Int64Counter
	leaseCount      metric.Int64UpDownCounter
	leaseDuration   metric.Float64Histogram
	leaseLosses     metric.Int64Counter
	leaseRenewals   metric.Int64Counter
	leaseDegraded   metric.Int64UpDownCounter
	nodeVotes       metric.Int64Counter
	nodeDuration    metric.Float64Histogram
	nodeUp          metric.Int64Gauge
	nodeRecoveries  metric.Int64Counter
	latchDuration   metric.Float64Histogram
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	m := maker{meter: meter}
	i := &instruments{
		acquireDuration: m.seconds("quorumlock.acquire.duration", waits,
			"Time from a call that acquires to its lease, or its failure."),
		acquireWait: m.seconds("quorumlock.acquire.wait.duration", waits,
			"Time that a call that acquires was waiting for others, not for nodes."),
		acquireRounds: m.count("quorumlock.acquire.rounds", "{round}",
			"Attempts to acquire, by outcome."),
		leaseCount: m.level("quorumlock.lease.count", "{lease}",
			"Leases that are held."),
		leaseDuration: m.seconds("quorumlock.lease.duration", holds,
			"Time that a lease was held, by how it ended."),
		leaseLosses: m.count("quorumlock.lease.losses", "{lease}",
			"Leases that ended before they were released, or that their release did not find."),
		leaseRenewals: m.count("quorumlock.lease.renewals", "{renewal}",
			"Renewals, by outcome."),
		leaseDegraded: m.level("quorumlock.lease.degraded", "{lease}",
			"Leases that not all nodes back, by how many more may fail."),
		nodeVotes: m.count("quorumlock.node.votes", "{vote}",
			"Votes of nodes on acquisitions and renewals."),
		nodeDuration: m.seconds("quorumlock.node.operation.duration", trips,
			"Time from sending an operation to a node to its vote."),
		nodeUp: m.gauge("quorumlock.node.up", "{node}",
			"1 if a node answers, 0 if it is only probed."),
		nodeRecoveries: m.count("quorumlock.node.recoveries", "{recovery}",
			"Recoveries of nodes that are new or have lost their memory."),
		latchDuration: m.seconds("quorumlock.latch.duration", waits,
			"Time of a call on a latch."),
	}
	return i, m.err
}

// maker makes instruments, and collects errors.
type maker struct {
	meter metric.Meter
	err   error
}

func (m *maker) seconds(name string, bounds []float64, text string) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text),
		metric.WithExplicitBucketBoundaries(bounds...))
	m.err = errors.Join(m.err, err)
	return h
}

func (m *maker) count(name, unit, text string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) level(name, unit, text string) metric.Int64UpDownCounter {
	c, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) gauge(name, unit, text string) metric.Int64Gauge {
	g, err := m.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(text))
	m.err = errors.Join(m.err, err)
	return g
}
