package node

import (
	"cmp"
	"slices"
	"time"
)

// do carries out one operation, as the script of its kind does.
func (m *Memory) do(op Op) Reply {
	if m.foreign[op.Pool.Name] && (op.Kind == Acquire || op.Kind == Resize) {
		return Reply{Err: &Error{Node: m.name, Op: op.Kind, Reason: ErrWrongType}}
	}
	for _, name := range op.Names {
		if m.foreign[name] && op.Kind != Release && op.Kind != Leave && op.Kind != Latch && op.Kind != Unlatch {
			return Reply{Err: &Error{Node: m.name, Op: op.Kind, Reason: ErrWrongType}}
		}
	}
	r := m.script(op)
	if r.Err != nil {
		r.Err = newError(m.name, op.Kind, cmp.Or(reasonOfRefusal(r.Err), ErrWrongType), r.Err)
	}
	return r
}

func (m *Memory) script(op Op) Reply {
	if op.Reads {
		return m.read(op)
	}
	switch op.Kind {
	case Acquire:
		return m.acquire(op)
	case Renew:
		return m.renew(op)
	case Release:
		return m.release(op)
	case Inspect:
		return m.inspect(op)
	case Mark:
		return m.markOp(op)
	case Open:
		return m.openOp(op)
	case Leave:
		return m.leave(op)
	case Resize:
		return m.resize(op)
	case Latch:
		return m.latch(op)
	case Unlatch:
		return m.unlatch(op)
	case Shorten:
		return m.shorten(op)
	default:
		return m.forceRelease(op)
	}
}

// mayGrant returns a refusal if the node must not grant an acquisition, whoever holds the names. last is the
// largest token that the owner may use.
func (m *Memory) mayGrant(op Op, last uint64) (refusal Reply) {
	refusal, left := m.guard(op)
	switch {
	case refusal.Err != nil:
		return refusal
	case left > 0:
		return recoveringRefusal(left, op.Limits.Recovery(), m.marker.HadMarker)
	case op.TTL > op.Limits.MaxTTL:
		return settingsRefusal(op, op.Limits)
	case isImplausible(op.Token, last, m.time(), op.Limits):
		return clockRefusal(m.time(), op)
	}
	return Reply{}
}

func (m *Memory) acquire(op Op) Reply {
	if refusal := m.mayGrant(op, op.end()); refusal.Err != nil {
		return refusal
	}
	if op.ofPool() {
		return m.acquireSlots(op)
	}
	denial := m.longestHolder(op.Names, op.place())
	rank, err := m.enqueueDenied(op, &denial)
	if err != nil {
		return Reply{Err: err}
	}
	if denial.Name != "" {
		return Reply{Outcome: Denied, Holder: denial, Rank: rank}
	}
	for _, name := range op.Names {
		if i := m.queued(name).rank(op.Waiter.ID); op.Fair && i >= 0 {
			m.recordWake(name, i)
		}
	}
	return Reply{Outcome: Granted, Token: m.grant(op)}
}

// grant gives all names to the owner. Of a lock that the owner has already, the longer life stays, as in put.lua. grant
// returns the largest fence that the token did not exceed, or 0. It raises fences when it has compared all: some of the
// names may share a place.
func (m *Memory) grant(op Op) (known uint64) {
	for _, name := range op.Names {
		lock := lockState{owner: op.Owner, expiry: m.clock.Now() + op.TTL, token: op.end()}
		if _, held := m.holder(name); held { // by this owner
			lock.expiry = max(lock.expiry, m.locks[name].expiry)
			lock.token = max(lock.token, m.locks[name].token)
		}
		m.locks[name] = lock
		if seen := m.fence(name); seen >= op.Token {
			known = max(known, seen)
		}
	}
	for _, name := range op.Names {
		if m.fence(name) < op.Token {
			m.raise(name, op.end())
		}
	}
	return known
}

// mayRenew returns a refusal if the node must not carry out a renewal, and the remaining recovery.
func (m *Memory) mayRenew(op Op) (refusal Reply, left time.Duration) {
	refusal, left = m.guard(op)
	if refusal.Err == nil && op.TTL > op.Limits.MaxTTL {
		refusal = settingsRefusal(op, op.Limits)
	}
	return refusal, left
}

// restoreFence sets the fence of a name to the token of a renewal, if the node has forgotten it.
func (m *Memory) restoreFence(name string, op Op) {
	if mayFence(op.Token, m.time(), op.Limits) && m.fence(name) < op.Token {
		m.raise(name, op.Token)
	}
}

// renewed returns the reply to a renewal on a node with this remaining recovery.
func (m *Memory) renewed(outcome Outcome, left time.Duration) Reply {
	return Reply{Outcome: outcome, Recovering: left, HadMarker: left > 0 && m.marker.HadMarker}
}

func (m *Memory) renew(op Op) Reply {
	refusal, left := m.mayRenew(op)
	if refusal.Err != nil {
		return refusal
	}
	outcome := Granted
	var denial Holder
	for _, name := range op.Names {
		h, held := m.holder(name)
		switch {
		case held && h.Owner == op.Owner:
		case m.hasTombstone(name, op.Owner): // even if another owner holds the name now
			return Reply{Outcome: Denied, Holder: Holder{Name: name}}
		case !held:
			outcome = Healed
		case denial.Name == "", denial.Owner == Readers && h.Owner != Readers: // a writer can show that the lease is lost
			denial = m.withOwnToken(h)
		}
	}
	if denial.Name != "" {
		return Reply{Outcome: Denied, Holder: denial}
	}
	for _, name := range op.Names {
		lock, held := m.locks[name]
		if !held {
			lock = lockState{owner: op.Owner, token: op.Token}
		}
		lock.expiry = max(lock.expiry, m.clock.Now()+op.TTL)
		m.locks[name] = lock
		m.restoreFence(name, op)
	}
	return m.renewed(outcome, left)
}

func (m *Memory) release(op Op) Reply {
	if op.ofPool() {
		return m.releaseSlots(op)
	}
	removed := 0
	for _, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner == op.Owner {
			delete(m.locks, name)
			removed++
			if op.Announce {
				m.announce(name)
			}
		}
	}
	m.wakeNext(op)
	return released(op, removed)
}

func (m *Memory) shorten(op Op) Reply {
	end, own := m.clock.Now()+op.TTL, 0
	for _, name := range op.Names {
		h, held := m.holder(name)
		switch {
		case held && h.Owner == op.Owner:
			lock := m.locks[name]
			lock.expiry = min(lock.expiry, end)
			m.locks[name] = lock
		case held && m.reading(name, op.Owner):
			m.readers[name][op.Owner] = min(m.readers[name][op.Owner], end)
			m.dropReaders(name)
		default:
			continue
		}
		own++
		if op.Announce {
			m.announce(name)
		}
	}
	return released(op, own)
}

// released is the answer to a release that removed this number of names.
func released(op Op, removed int) Reply {
	if removed == 0 {
		return Reply{Outcome: Absent}
	}
	return Reply{Outcome: Released, Partial: removed < len(op.Names)}
}

// wakeNext ends a release: it wakes the next waiters, but not a waiter that tries again.
func (m *Memory) wakeNext(op Op) {
	m.restoreEntry(op.Names, op.Waiter)
	m.wakeAll(op.Names, op.Waiter.staying())
}

// staying returns the id of a waiter that stays in the queues, or none.
func (w Waiter) staying() string {
	if w.Keep == 0 {
		return ""
	}
	return w.ID
}

func (m *Memory) inspect(op Op) Reply {
	r := Reply{Outcome: Inspected, Holders: m.holders(op.Names), Recovering: op.Limits.Recovery(), Unmarked: true}
	if m.marker != nil && m.marker.Identity == m.identity {
		r.Recovering, r.Unmarked = m.recovery(), false
	}
	return r
}

func (m *Memory) forceRelease(op Op) Reply {
	found, buried := m.holders(op.Names), op.Buried
	if op.Owner != "" {
		found = slices.DeleteFunc(found, func(h Holder) bool { return h.Reads || h.Owner != op.Owner })
		buried = append([]string{op.Owner}, buried...)
	}
	told := slices.Clone(buried)
	for _, name := range op.Names {
		for _, owner := range buried {
			m.addTombstone(name, owner, op.TTL)
		}
	}
	for i, h := range found {
		m.addTombstone(h.Name, h.Owner, max(op.TTL, h.TTL))
		if h.Owner != Readers {
			told = append(told, h.Owner)
		}
		found[i].Token = 0
		if _, first := m.locks[h.Name]; first && op.Announce {
			m.announce(h.Name)
		}
		delete(m.locks, h.Name)
		delete(m.readers, h.Name)
	}
	for i, owner := range told {
		if !slices.Contains(told[:i], owner) {
			m.publish(Waiter{ID: owner}.client(), Message{Kind: Forced, Waiter: owner, Name: op.Names[0]})
		}
	}
	m.wakeAll(op.Names, "")
	return Reply{Outcome: forcedOutcome(len(found)), Holders: found}
}
