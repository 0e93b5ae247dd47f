package node

import "time"

// time returns the node's clock, in microseconds since the Unix epoch.
func (m *Memory) time() int64 { return m.clock.Wall().UnixMicro() }

// guard is the function of the same name in the scripts. It replaces a marker that is missing or from an
// earlier life. It returns a refusal if the client's limits differ, and how long the node gives no new
// rights.
func (m *Memory) guard(op Op) (refusal Reply, left time.Duration) {
	limits := op.Limits
	if m.marker != nil {
		limits = m.marker.Limits
	}
	if m.marker == nil || m.marker.Identity != m.identity {
		until := m.time() + limits.Recovery().Microseconds()
		if m.marker != nil { // the limits were changed before: earlier grants may last longer
			until = max(until, m.marker.Until)
		}
		m.marker = &Marker{
			Identity:  m.identity,
			Until:     until,
			Limits:    limits,
			HadMarker: m.marker != nil,
		}
	}
	if limits != op.Limits {
		return settingsRefusal(op, limits), 0
	}
	return Reply{}, m.recovery()
}

// recovery returns the remaining recovery, in whole milliseconds as scripts do.
func (m *Memory) recovery() time.Duration {
	left := max(micro(m.marker.Until-m.time()), 0)
	return (left + time.Millisecond - 1).Truncate(time.Millisecond)
}

func (m *Memory) markOp(op Op) Reply {
	m.guard(op)
	return Reply{Outcome: Inspected, Marker: m.markerReply()}
}

// markerReply returns the marker as a reply.
func (m *Memory) markerReply() *Marker {
	marker := *m.marker
	marker.Left = m.recovery()
	return &marker
}

func (m *Memory) openOp(op Op) Reply {
	m.guard(op)
	if found := op.found(); m.marker.Identity != found.Identity || m.marker.Until != found.Until {
		return Reply{Outcome: Denied, Marker: m.markerReply()}
	}
	opened := *m.marker
	if opened.Limits == op.Limits {
		opened.Until = 0
		m.marker = &opened
		return Reply{Outcome: Granted}
	}
	both := Limits{
		MaxTTL:       max(op.Limits.MaxTTL, opened.Limits.MaxTTL),
		MaxClockSkew: max(op.Limits.MaxClockSkew, opened.Limits.MaxClockSkew),
	}
	left := max(both.Recovery(), m.recovery())
	opened.Limits, opened.Until, opened.HadMarker = op.Limits, m.time()+left.Microseconds(), true
	m.marker = &opened
	return Reply{Outcome: Granted, Recovering: m.recovery()}
}

// fence returns the token at a name's place, or 0.
func (m *Memory) fence(name string) uint64 { return m.fences[fencePlace(name)] }

// raise sets the place of a name to a token.
func (m *Memory) raise(name string, token uint64) { m.fences[fencePlace(name)] = token }

// beforeLoss returns the largest token that the node may have forgotten in its last loss of memory.
func (m *Memory) beforeLoss(l Limits) uint64 {
	return uint64(max(m.marker.Until-l.MaxTTL.Microseconds(), 0))
}
