package quorumotel

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorum"
)

// meters turns events into measurements.
type meters struct {
	*instruments
	groups  groups
	backing backing
	// opened are the groups and nodes whose counters have begun at 0. answered are the nodes for which it is known
	// whether they answer.
	openedGroups, openedNodes, answered seen
}

func (m *meters) hooks() quorumlock.Hooks {
	return quorumlock.Hooks{
		Acquired:       m.acquired,
		Acquisition:    m.acquisition,
		Voted:          m.voted,
		AttemptFailed:  m.attemptFailed,
		Renewed:        func(e quorumlock.RenewedEvent) { m.renewal(e.Names, nil) },
		RenewalFailed:  func(e quorumlock.RenewalFailedEvent) { m.renewal(e.Names, e.Err) },
		BackingChanged: m.backingChanged,
		Ended:          m.ended,
		LossFound:      m.lossFound,
		Latch:          m.latch,
		NodeDown:       func(node string, _ error) { m.node(node, false) },
		NodeUp:         func(node string) { m.node(node, true) },
		NodeRecovering: m.nodeRecovering,
	}
}

// about returns the attributes of a metric about a lock.
func (m *meters) about(names []string, attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(m.groups.with(names, attrs...))
}

// open sets the failure counters of a group of locks to 0. A series that begins with its first failure would not show
// that as an increase.
func (m *meters) open(names []string) {
	if !m.openedGroups.first(m.groups.of(names)) {
		return
	}
	for _, end := range losses {
		m.leaseLosses.Add(background, 0, m.about(names, keyEnd.String(end)))
	}
	m.acquireRounds.Add(background, 0, m.about(names, failed("no_quorum")))
	m.leaseRenewals.Add(background, 0, m.about(names, failed("no_quorum")))
}

// openNode does the same for a node.
func (m *meters) openNode(node string) {
	if !m.openedNodes.first(node) {
		return
	}
	for _, restarted := range []bool{false, true} {
		m.nodeRecoveries.Add(background, 0, recovery(node, restarted))
	}
}

func recovery(node string, restarted bool) metric.MeasurementOption {
	return metric.WithAttributes(keyNode.String(node), keyRestarted.Bool(restarted))
}

// Events have no context of their own, except acquisitions, whose context links a measurement to a trace.
var background = context.Background()

func (m *meters) acquisition(e quorumlock.AcquisitionEvent) {
	outcome := keyHandedOver.Bool(e.HandedOver)
	if e.Err != nil {
		outcome = failed(failureOf(e.Err))
	}
	m.acquireDuration.Record(e.Context, e.Took.Seconds(), m.about(e.Names, outcome))
	m.acquireWait.Record(e.Context, max(e.Took-e.Asking, 0).Seconds(), m.about(e.Names))
}

func (m *meters) acquired(e quorumlock.AcquiredEvent) {
	m.open(e.Names)
	m.leaseCount.Add(background, 1, m.about(e.Names))
	if !e.HandedOver {
		m.acquireRounds.Add(background, 1, m.about(e.Names))
	}
}

func (m *meters) attemptFailed(e quorumlock.AttemptFailedEvent) {
	m.open(e.Names)
	m.acquireRounds.Add(background, 1, m.about(e.Names, failed(failureOf(e.Err))))
}

func (m *meters) renewal(names []string, err error) {
	if err != nil {
		m.leaseRenewals.Add(background, 1, m.about(names, failed(failureOf(err))))
		return
	}
	m.leaseRenewals.Add(background, 1, m.about(names))
}

func (m *meters) ended(e quorumlock.EndedEvent) {
	end := endOf(e.Err)
	m.leaseCount.Add(background, -1, m.about(e.Names))
	m.leaseDuration.Record(background, e.Held.Seconds(), m.about(e.Names, keyEnd.String(end)))
	if slices.Contains(losses, end) {
		m.leaseLosses.Add(background, 1, m.about(e.Names, keyEnd.String(end)))
	}
	if !e.HandedOver { // Otherwise the next lease has the same backing.
		m.degraded(e.Names, m.backing.ended(e.Owner))
	}
}

// lossFound counts a loss whose lease Ended has told as released.
func (m *meters) lossFound(e quorumlock.LossFoundEvent) {
	m.leaseLosses.Add(background, 1, m.about(e.Names, keyEnd.String(string(e.Err.Cause))))
}

func (m *meters) backingChanged(e quorumlock.BackingEvent) {
	m.degraded(e.Names, m.backing.changed(e))
}

// degraded moves a lease from one count to another.
func (m *meters) degraded(names []string, c change) {
	if c.from != whole {
		m.leaseDegraded.Add(background, -1, m.about(names, keySpare.Int(c.from)))
	}
	if c.to != whole {
		m.leaseDegraded.Add(background, 1, m.about(names, keySpare.Int(c.to)))
	}
}

func (m *meters) voted(e quorumlock.VoteEvent) {
	m.openNode(e.Node)
	attrs := []attribute.KeyValue{keyNode.String(e.Node), keyOperation.String(e.Op.String())}
	if e.Vote == quorum.Unknown {
		attrs = append(attrs, failed(reasonOf(e.Err)))
	} else {
		m.seen(e.Node)
	}
	if !e.Unsent {
		m.nodeDuration.Record(background, e.Took.Seconds(), metric.WithAttributes(attrs...))
	}
	m.nodeVotes.Add(background, 1, metric.WithAttributes(append(attrs, keyVote.String(e.Vote.String()))...))
}

// seen records that a node answers, if nothing was known about it.
func (m *meters) seen(node string) {
	if m.answered.first(node) {
		m.nodeUp.Record(background, 1, metric.WithAttributes(keyNode.String(node)))
	}
}

func (m *meters) node(node string, up bool) {
	m.answered.first(node)
	value := int64(0)
	if up {
		value = 1
	}
	m.nodeUp.Record(background, value, metric.WithAttributes(keyNode.String(node)))
}

func (m *meters) nodeRecovering(e quorumlock.NodeRecoveringEvent) {
	m.nodeRecoveries.Add(background, 1, recovery(e.Node, e.Restarted))
}

func (m *meters) latch(e quorumlock.LatchEvent) {
	attrs := []attribute.KeyValue{keyOperation.String(e.Op)}
	if e.Err != nil {
		attrs = append(attrs, failed(failureOf(e.Err)))
	}
	m.latchDuration.Record(background, e.Took.Seconds(), m.about([]string{e.Name}, attrs...))
}
