// Package measure turns the events of clients into measurements, for any monitoring system. The modules otel and
// prometheus record them; an adapter for another system implements [Recorder], and makes what [Instruments] lists.
//
// An adapter compiles, and measures all that is new, with every later version of this package of the same major version.
// The kinds and the types of values stay; instruments, keys and values may be added.
package measure

import (
	"context"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock"
)

// Label is a property of a value. The type of Value is string, bool or int.
type Label struct {
	Key   string
	Value any
}

// Recorder records measurements. It is called by several goroutines if several clients share the hooks.
type Recorder interface {
	// Record adds a value to an instrument, or sets a Gauge to it. ctx may lead to the trace of the call that is
	// measured. Record may keep no labels.
	Record(ctx context.Context, i *Instrument, value float64, labels ...Label)
}

// Hooks returns hooks that measure. group computes the value of keyGroup from the name of a lock, or is nil.
func Hooks(r Recorder, group func(name string) string) quorumlock.Hooks {
	m := &meters{recorder: r, backing: backing{spare: make(map[string]int)}, groups: groups{sort: group, known: make(map[string]bool)}, ups: make(map[string]float64)}
	return quorumlock.Hooks{
		Acquired:       m.acquired,
		Acquisition:    m.acquisition,
		Voted:          m.voted,
		AttemptFailed:  m.attemptFailed,
		Renewed:        func(e quorumlock.RenewalEvent) { m.renewal(e.Names, nil) },
		RenewalFailed:  func(e quorumlock.RenewalEvent) { m.renewal(e.Names, e.Err) },
		BackingChanged: func(e quorumlock.BackingEvent) { m.degraded(e.Names, m.backing.changed(e)) },
		Ended:          m.ended,
		LossFound:      m.lossFound,
		Latch:          m.latch,
		NodeDown:       func(node string, _ error) { m.node(node, 0) },
		NodeUp:         func(node string) { m.node(node, 1) },
		NodeRecovering: func(e quorumlock.NodeRecoveringEvent) { m.recovery(e.Node, e.HadMarker, 1) },
	}
}

type meters struct {
	recorder Recorder
	groups   groups
	backing  backing
	// openedGroups and openedNodes are the groups and nodes whose counters have begun at 0.
	openedGroups, openedNodes seen

	// ups has the last value of nodeUp for each node. upsMu is also held while a value is recorded, so that the two
	// agree.
	upsMu sync.Mutex
	ups   map[string]float64
}

// Events have no context of their own, except acquisitions, whose context links a measurement to a trace.
var background = context.Background()

func (m *meters) about(names []string, i *Instrument, value float64, labels ...Label) {
	m.aboutCall(background, names, i, value, labels...)
}

func (m *meters) aboutCall(ctx context.Context, names []string, i *Instrument, value float64, labels ...Label) {
	if group := m.groups.of(names); group != "" {
		labels = append(labels, Label{keyGroup, group})
	}
	m.recorder.Record(ctx, i, value, labels...)
}

func failed(kind string) Label { return Label{keyError, kind} }

// failure returns the label of a call that failed, and none for a nil error.
func failure(err error) []Label {
	if err == nil {
		return nil
	}
	return []Label{failed(FailureOf(err))}
}

// open sets the failure counters of a group of locks to 0. A series that begins with its first failure would not show
// that as an increase.
func (m *meters) open(names []string) {
	if !m.openedGroups.first(m.groups.of(names)) {
		return
	}
	for _, end := range losses {
		m.about(names, leaseLosses, 0, Label{keyEnd, end})
	}
	m.about(names, acquireRounds, 0, failed("no_quorum"))
	m.about(names, leaseRenewals, 0, failed("no_quorum"))
}

func (m *meters) openNode(node string) {
	if !m.openedNodes.first(node) {
		return
	}
	for _, hadMarker := range []bool{false, true} {
		m.recovery(node, hadMarker, 0)
	}
}

func (m *meters) recovery(node string, hadMarker bool, n float64) {
	m.recorder.Record(background, nodeRecoveries, n, Label{keyNode, node}, Label{keyHadMarker, hadMarker})
}

func (m *meters) acquisition(e quorumlock.AcquisitionEvent) {
	outcome := Label{keyHandedOver, e.HandedOver}
	if e.Err != nil {
		outcome = failed(FailureOf(e.Err))
	}
	m.aboutCall(e.Context, e.Names, acquireDuration, e.Took.Seconds(), outcome)
	m.aboutCall(e.Context, e.Names, acquireWait, max(e.Took-e.Asking, 0).Seconds())
}

func (m *meters) acquired(e quorumlock.AcquiredEvent) {
	m.open(e.Names)
	m.about(e.Names, leaseCount, 1)
	if !e.HandedOver {
		m.about(e.Names, acquireRounds, 1)
	}
}

func (m *meters) attemptFailed(e quorumlock.AttemptFailedEvent) {
	m.open(e.Names)
	m.about(e.Names, acquireRounds, 1, failure(e.Err)...)
}

func (m *meters) renewal(names []string, err error) {
	m.about(names, leaseRenewals, 1, failure(err)...)
}

func (m *meters) ended(e quorumlock.EndedEvent) {
	end := endOf(e.Err)
	m.about(e.Names, leaseCount, -1)
	m.about(e.Names, leaseDuration, e.Held.Seconds(), Label{keyEnd, end})
	if slices.Contains(losses, end) {
		m.about(e.Names, leaseLosses, 1, Label{keyEnd, end})
	}
	if !e.HandedOver { // Otherwise the next lease has the same backing.
		m.degraded(e.Names, m.backing.move(e.Owner, whole))
	}
}

// lossFound counts a loss whose lease Ended has told as released.
func (m *meters) lossFound(e quorumlock.LossFoundEvent) {
	m.about(e.Names, leaseLosses, 1, Label{keyEnd, string(e.Err.Cause)})
}

func (m *meters) degraded(names []string, c change) {
	if c.from != whole {
		m.about(names, leaseDegraded, -1, Label{keySpare, c.from})
	}
	if c.to != whole {
		m.about(names, leaseDegraded, 1, Label{keySpare, c.to})
	}
}

func (m *meters) voted(e quorumlock.VoteEvent) {
	m.openNode(e.Node)
	labels := []Label{{keyNode, e.Node}, {keyOperation, string(e.Op)}}
	if e.Vote == quorumlock.VoteUnknown {
		labels = append(labels, failed(ReasonOf(e.Err)))
	} else {
		// Either nothing was known about it, or another client of these hooks took it for down, and has not asked since.
		m.node(e.Node, 1)
	}
	if !e.Unsent {
		m.recorder.Record(background, nodeDuration, e.Took.Seconds(), labels...)
	}
	m.recorder.Record(background, nodeVotes, 1, append(labels, Label{keyVote, string(e.Vote)})...)
}

// node records whether a node answers, if that has changed.
func (m *meters) node(node string, up float64) {
	m.upsMu.Lock()
	defer m.upsMu.Unlock()
	if before, known := m.ups[node]; known && before == up {
		return
	}
	m.ups[node] = up
	m.recorder.Record(background, nodeUp, up, Label{keyNode, node})
}

func (m *meters) latch(e quorumlock.LatchEvent) {
	labels := append([]Label{{keyOperation, string(e.Op)}}, failure(e.Err)...)
	m.about([]string{e.Name}, latchDuration, e.Took.Seconds(), labels...)
}
