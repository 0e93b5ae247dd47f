package node

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// read carries out one operation of a reader, as the script of its kind does.
func (m *Memory) read(op Op) Reply {
	if slices.ContainsFunc(op.Names, func(name string) bool { return m.hasForeign("readers", name) }) && op.Kind != Release {
		return Reply{Err: ErrWrongType}
	}
	switch op.Kind {
	case Acquire:
		return m.acquireRead(op)
	case Renew:
		return m.renewRead(op)
	default:
		return m.releaseRead(op)
	}
}

func (m *Memory) acquireRead(op Op) Reply {
	if refusal := m.mayGrant(op, max(op.Token, op.Floor)); refusal.Err != nil {
		return refusal
	}
	denial := m.longestHolder(op.Names, op.place())
	rank, err := m.enqueueDenied(op, &denial)
	if err != nil {
		return Reply{Err: err}
	}
	if denial.Name != "" {
		return Reply{Outcome: Denied, Holder: denial, Rank: rank}
	}
	r := Reply{Outcome: Granted}
	for _, name := range op.Names {
		m.addReader(name, op.Owner, op.TTL)
		r.Token = max(r.Token, m.fenceOfReader(name, op))
		m.dropEntry(name, op.Waiter.ID)
	}
	if op.Fair || op.Waiter.ID != "" {
		m.wakeAll(op.Names, "")
	}
	return r
}

// fenceOfReader returns the fence of a name after the acquisition of a reader has raised it.
func (m *Memory) fenceOfReader(name string, op Op) uint64 {
	token := m.fence(name)
	if token <= m.beforeLoss(op.Limits) {
		token = minFence(op, m.time())
	}
	token = max(token, op.Floor)
	m.raise(name, token)
	return token
}

func (m *Memory) renewRead(op Op) Reply {
	refusal, left := m.mayRenew(op)
	if refusal.Err != nil {
		return refusal
	}
	outcome := Granted
	var written []string
	var denial Holder
	for _, name := range op.Names {
		h, held := m.holder(name)
		switch {
		case held && h.Owner == op.Owner:
			written = append(written, name)
		case held && h.Owner == Readers && m.reading(name, op.Owner):
		case m.hasTombstone(name, op.Owner): // even if another owner holds the name now
			return Reply{Outcome: Denied, Holder: Holder{Name: name}}
		case held && h.Owner != Readers:
			if denial.Name == "" {
				denial = m.withOwnToken(h)
			}
		default:
			outcome = Healed
		}
	}
	if denial.Name != "" {
		return Reply{Outcome: Denied, Holder: denial}
	}
	for _, name := range op.Names {
		ttl := op.TTL
		if h, held := m.holder(name); held && h.Owner == op.Owner {
			ttl = max(ttl, h.TTL)
			delete(m.locks, name)
		}
		m.addReader(name, op.Owner, ttl)
		m.restoreFence(name, op)
	}
	queued := slices.DeleteFunc(slices.Clone(op.Names), func(name string) bool { return m.queued(name).rank(op.Waiter.ID) < 0 })
	m.restoreEntry(queued, op.Waiter)
	m.wakeAll(written, "")
	m.wakeAll(queued, "")
	return m.renewed(outcome, left)
}

func (m *Memory) releaseRead(op Op) Reply {
	removed := 0
	for _, name := range op.Names {
		if m.foreign[name] {
			continue
		}
		own, free := m.releaseReader(name, op.Owner)
		if own {
			removed++
		}
		if free && op.Announce {
			m.announce(name)
		}
	}
	m.wakeNext(op)
	return released(op, removed)
}

// releaseReader ends an owner's hold of a name, as a reader or as a writer.
func (m *Memory) releaseReader(name, owner string) (own, free bool) {
	h, held := m.holder(name)
	if held && h.Owner == owner {
		delete(m.locks, name)
		return true, true
	}
	if m.hasForeign("readers", name) || !m.reading(name, owner) {
		return false, false
	}
	delete(m.readers[name], owner)
	if held && h.Owner == Readers {
		return true, m.dropReaders(name)
	}
	return true, false
}

// addReader lets an owner read a name for a TTL from now, or longer if it does already.
func (m *Memory) addReader(name, owner string, ttl time.Duration) {
	if m.readers[name] == nil {
		m.readers[name] = make(map[string]time.Duration)
	}
	m.readers[name][owner] = max(m.readers[name][owner], m.clock.Now()+ttl)
	m.dropReaders(name)
}

// reading reports whether an owner reads a name now.
func (m *Memory) reading(name, owner string) bool { return m.readers[name][owner] > m.clock.Now() }

// dropReaders removes the readers that have ended, and the lock with the last of them: then it reports true.
func (m *Memory) dropReaders(name string) (free bool) {
	now := m.clock.Now()
	maps.DeleteFunc(m.readers[name], func(_ string, expiry time.Duration) bool { return expiry <= now })
	if len(m.readers[name]) == 0 {
		delete(m.readers, name)
		delete(m.locks, name)
		return true
	}
	last := slices.Max(slices.Collect(maps.Values(m.readers[name])))
	m.locks[name] = lockState{owner: Readers, expiry: last}
	return false
}

// writerIntent returns the name that a reader must leave to a writer for the longest time, or none.
func (m *Memory) writerIntent(op Op) (denial Holder) {
	for _, name := range op.Names {
		h, held := m.holder(name)
		if held && m.reading(name, op.Owner) {
			continue
		}
		left, first := m.firstWriter(name, op.Waiter.ID, h)
		if first {
			m.recordArrival(name, op.Waiter.ID)
		}
		if left > denial.TTL {
			denial = Holder{Name: name, Owner: h.Owner, TTL: left, Token: m.fence(name)}
		}
	}
	return denial
}

// firstWriter is the function intent in queue.lua.
func (m *Memory) firstWriter(name, id string, h Holder) (left time.Duration, first bool) {
	for range maxDeadWaiters {
		q := m.queued(name)
		i := slices.IndexFunc(q, func(e queueEntry) bool { return e.id == id || !reads(e.id) && !m.isUnresponsive(e) })
		if i < 0 || q[i].id == id {
			return 0, false
		}
		e := q[i]
		switch {
		case h.Owner == Readers:
			return h.TTL, true
		case e.expected:
			return e.woken + wakePrivilege(e.id) - m.clock.Now(), i == 0
		case slices.ContainsFunc(q[:i], func(e queueEntry) bool { return reads(e.id) }):
			left, first = m.precedenceOver(name, e.id)
		}
		if left > 0 {
			return left, first
		}
		if m.deliver(Woken, name, e.id) {
			if place := m.queues[name].rank(e.id); place >= 0 {
				m.recordWake(name, place)
			}
			return wakePrivilege(e.id), i == 0
		}
		m.dropEntry(name, e.id)
	}
	return basePrivilege, false
}

// readersOf returns all readers of a name, by the time at which they end.
func (m *Memory) readersOf(all Holder) (found []Holder) {
	for owner, expiry := range m.readers[all.Name] {
		if left := expiry - m.clock.Now(); left > 0 {
			found = append(found, Holder{Name: all.Name, Owner: owner, TTL: left, Token: all.Token, Reads: true})
		}
	}
	slices.SortFunc(found, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), cmp.Compare(a.Owner, b.Owner))
	})
	return found
}
