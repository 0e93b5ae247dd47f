package node

import "cmp"

// resumeLease is the script resume.
func (m *Memory) resumeLease(op Op) Reply {
	refusal, left := m.guard(op)
	if refusal.Err == nil && left > 0 {
		refusal = recoveringRefusal(left, op.Limits.Recovery(), m.marker.HadMarker)
	}
	if refusal.Err == nil && op.TTL > op.Limits.MaxTTL {
		refusal = settingsRefusal(op, op.Limits)
	}
	if refusal.Err != nil {
		return refusal
	}
	old := instant(op.Token) <= m.marker.Until+op.Limits.MaxClockSkew.Microseconds()
	var absent bool
	var denial, doubtful Holder
	for _, name := range op.Names {
		h, held := m.holder(name)
		switch {
		case m.hasTombstone(name, op.Owner):
			return Reply{Outcome: Denied, Holder: Holder{Name: name}}
		case !held:
			absent = true
		case h.Owner != op.Owner:
			denial = cmp.Or(denial, m.withOwnToken(h))
		case old || m.locks[name].token != op.Token || m.locks[name].late:
			doubtful = cmp.Or(doubtful, m.withOwnToken(h))
		}
	}
	switch {
	case denial.Name != "" || doubtful.Name != "":
		return Reply{Outcome: Denied, Holder: cmp.Or(denial, doubtful)}
	case absent:
		return Reply{Outcome: Absent}
	}
	for _, name := range op.Names {
		lock := m.locks[name]
		lock.expiry = max(lock.expiry, m.clock.Now()+op.TTL)
		m.locks[name] = lock
	}
	return Reply{Outcome: Granted}
}
