package node

import "time"

// holder is who has a name now. What has run out is forgotten on the way.
func (m *Memory) holder(name string) (Holder, bool) {
	c, ok := m.locks[name]
	if !ok {
		return Holder{}, false
	}
	left := c.expiry - m.clock.Now()
	if left <= 0 {
		delete(m.locks, name)
		return Holder{}, false
	}
	return Holder{Name: name, Owner: c.owner, TTL: left, Token: m.fence(name)}, true
}

func (m *Memory) holders(names []string) []Holder {
	found := make([]Holder, 0, len(names))
	for _, name := range names {
		h, held := m.holder(name)
		switch {
		case held && h.Owner == Readers:
			found = append(found, m.readersOf(h)...)
		case held:
			found = append(found, h)
		}
	}
	return found
}

func (m *Memory) addTombstone(name, owner string, ttl time.Duration) {
	m.tombstones[tombstoneKey{name, owner}] = m.clock.Now() + ttl
}

func (m *Memory) hasTombstone(name, owner string) bool {
	expiry, ok := m.tombstones[tombstoneKey{name, owner}]
	if ok && expiry <= m.clock.Now() {
		delete(m.tombstones, tombstoneKey{name, owner})
		return false
	}
	return ok
}

// longestHolder is who has one of the names for longest, but for the one that may.
func (m *Memory) longestHolder(names []string, may string) (found Holder) {
	for _, name := range names {
		if h, held := m.holder(name); held && h.Owner != may && h.TTL > found.TTL {
			found = h
		}
	}
	return found
}

// place is what stands in the place of an owner where the operation has a name.
func (op *Op) place() string {
	if op.Reads {
		return Readers
	}
	return op.Owner
}
