package node

import (
	"cmp"
	"time"
)

// run carries out one operation, as the script of its kind does.
func (m *Memory) run(op Op) Reply {
	for _, name := range op.Names {
		if m.foreign[name] && op.Kind != Release && op.Kind != Leave {
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
		return m.mark(op)
	case Open:
		return m.open(op)
	case Leave:
		return m.leave(op)
	default:
		return m.forceRelease(op)
	}
}

func (m *Memory) acquire(op Op) Reply {
	refusal, left := m.guard(op)
	switch {
	case refusal.Err != nil:
		return refusal
	case left > 0:
		return recovering(left, op.Limits.Recovery(), m.marker.Restarted)
	case op.TTL > op.Limits.MaxTTL:
		return differing(op, op.Limits)
	case tokenRefused(op.Token, op.end(), m.time(), op.Limits):
		return farFrom(m.time(), op)
	}
	var denial Holder
	for _, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner != op.Owner && h.TTL > denial.TTL {
			denial = h
		}
	}
	rank, err := m.wait(op, &denial)
	if err != nil {
		return Reply{Err: err}
	}
	if denial.Name != "" {
		return Reply{Outcome: Denied, Holder: denial, Rank: rank}
	}
	var known uint64
	for _, name := range op.Names {
		m.locks[name] = claim{owner: op.Owner, expiry: m.clock.Now() + op.TTL}
		if i := m.queued(name).rank(op.Waiter.ID); op.Fair && i >= 0 {
			m.expect(name, i)
		}
		if seen := m.fence(name); seen >= op.Token {
			known = max(known, seen)
		} else {
			m.raise(name, op.end(), op.Limits)
		}
	}
	return Reply{Outcome: Granted, Token: known}
}

func (m *Memory) renew(op Op) Reply {
	refusal, left := m.guard(op)
	switch {
	case refusal.Err != nil:
		return refusal
	case op.TTL > op.Limits.MaxTTL:
		return differing(op, op.Limits)
	}
	outcome := Granted
	for _, name := range op.Names {
		h, held := m.holder(name)
		switch {
		case !held && m.buried(name, op.Owner):
			return Reply{Outcome: Denied, Holder: Holder{Name: name}}
		case !held:
			outcome = Healed
		case h.Owner != op.Owner:
			return Reply{Outcome: Denied, Holder: h}
		}
	}
	for _, name := range op.Names {
		expiry := max(m.locks[name].expiry, m.clock.Now()+op.TTL)
		m.locks[name] = claim{owner: op.Owner, expiry: expiry}
		if fenced(op.Token, m.time(), op.Limits) && m.fence(name) < op.Token {
			m.raise(name, op.Token, op.Limits)
		}
	}
	return Reply{Outcome: outcome, Recovering: left, Restarted: left > 0 && m.marker.Restarted}
}

func (m *Memory) release(op Op) Reply {
	outcome := Absent
	for _, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner == op.Owner {
			delete(m.locks, name)
			outcome = Released
			if op.Announce {
				m.announce(name)
			}
		}
	}
	m.rejoin(op.Names, op.Waiter)
	except := op.Waiter.ID
	if op.Waiter.Keep == 0 {
		except = ""
	}
	m.wakeAll(op.Names, except)
	return Reply{Outcome: outcome}
}

func (m *Memory) inspect(op Op) Reply {
	r := Reply{Outcome: Inspected, Holders: m.holders(op.Names), Recovering: op.Limits.Recovery(), Unmarked: true}
	if m.marker != nil && m.marker.Identity == m.identity {
		r.Recovering, r.Unmarked = m.recovery(), false
	}
	return r
}

func (m *Memory) forceRelease(op Op) Reply {
	found := m.holders(op.Names)
	for _, name := range op.Names {
		for _, owner := range op.Buried {
			m.bury(name, owner, op.TTL)
		}
	}
	for i, h := range found {
		m.bury(h.Name, h.Owner, max(op.TTL, h.TTL))
		delete(m.locks, h.Name)
		found[i].Token = 0
		if op.Announce {
			m.announce(h.Name)
		}
	}
	m.wakeAll(op.Names, "")
	return Reply{Outcome: forcedOutcome(len(found)), Holders: found}
}

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
		if h, held := m.holder(name); held {
			found = append(found, h)
		}
	}
	return found
}

func (m *Memory) bury(name, owner string, ttl time.Duration) {
	m.tombstones[grave{name, owner}] = m.clock.Now() + ttl
}

func (m *Memory) buried(name, owner string) bool {
	expiry, ok := m.tombstones[grave{name, owner}]
	if ok && expiry <= m.clock.Now() {
		delete(m.tombstones, grave{name, owner})
		return false
	}
	return ok
}
