package node

import "time"

// holder returns the present holder of a name. It forgets what has expired.
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

// holders returns the holders of the names with their own tokens; readers have the fence.
func (m *Memory) holders(names []string) []Holder {
	found := make([]Holder, 0, len(names))
	for _, name := range names {
		h, held := m.holder(name)
		switch {
		case held && h.Owner == Readers:
			found = append(found, m.readersOf(h)...)
		case held:
			found = append(found, m.withOwnToken(h))
		}
	}
	return found
}

// withOwnToken returns a holder with the largest token that it may use, instead of the fence.
func (m *Memory) withOwnToken(h Holder) Holder {
	h.Token = m.locks[h.Name].token
	return h
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

// longestHolder returns the holder of one of the names with the longest TTL, except the owner may.
func (m *Memory) longestHolder(names []string, may string) (found Holder) {
	for _, name := range names {
		if h, held := m.holder(name); held && h.Owner != may && h.TTL > found.TTL {
			found = h
		}
	}
	return found
}

// place returns the owner that the lock has under this operation: for a reader it is [Readers].
func (op *Op) place() string {
	if op.Reads {
		return Readers
	}
	return op.Owner
}
