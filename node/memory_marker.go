package node

import "time"

// time is the node's clock, in microseconds since the Unix epoch.
func (m *Memory) time() int64 { return m.clock.Wall().UnixMicro() }

// guard does what the function of that name does in the scripts: it replaces a marker
// that is missing or of an earlier life, and says whether the client's limits differ, or
// how long the node gives no new rights.
func (m *Memory) guard(op Op) (refusal Reply, left time.Duration) {
	limits := op.Limits
	if m.marker != nil {
		limits = m.marker.Limits
	}
	if m.marker == nil || m.marker.Identity != m.identity {
		until := m.time() + limits.Recovery().Microseconds()
		if m.marker != nil { // limits were changed before, and what was granted may last longer
			until = max(until, m.marker.Until)
		}
		m.marker = &Marker{
			Identity:  m.identity,
			Until:     until,
			Limits:    limits,
			Restarted: m.marker != nil,
		}
	}
	if limits != op.Limits {
		return settingsRefusal(op, limits), 0
	}
	return Reply{}, m.recovery()
}

// recovery is what is left of it, in whole milliseconds as scripts tell it.
func (m *Memory) recovery() time.Duration {
	left := max(micro(m.marker.Until-m.time()), 0)
	return (left + time.Millisecond - 1).Truncate(time.Millisecond)
}

func (m *Memory) markOp(op Op) Reply {
	m.guard(op)
	return Reply{Outcome: Inspected, Marker: m.markerReply()}
}

// markerReply is the marker as it is told.
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
	opened.Limits, opened.Until, opened.Restarted = op.Limits, m.time()+left.Microseconds(), true
	m.marker = &opened
	return Reply{Outcome: Granted, Recovering: m.recovery()}
}

// fence is the largest token of a name that the node knows of, or 0.
func (m *Memory) fence(name string) uint64 {
	f := m.fences[name]
	if f.expiry < m.time()/1000 { // as keys expire: the last millisecond counts
		delete(m.fences, name)
		return 0
	}
	return f.token
}

// raise sets the fence of a name, for a recovery past the token.
func (m *Memory) raise(name string, token uint64, l Limits) {
	m.fences[name] = fenceState{token, int64(token)/1000 + l.Recovery().Milliseconds()}
}
