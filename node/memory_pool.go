package node

import (
	"cmp"
	"slices"
	"time"
)

// poolSize is the latest setting of a pool's size.
type poolSize struct {
	size    int
	version uint64
}

// slotView is the present state of a pool's slots: the free ones, in ascending order and as a bitmap, and the
// remaining TTLs of the others, shortest first.
type slotView struct {
	free  []int
	lives []time.Duration
	// holder is the owner with the shortest TTL.
	holder string
	state  PoolState
}

// inForce is the function in_force of the scripts.
func (m *Memory) inForce(p Pool) (size int, version, known uint64) {
	if s, ok := m.sizes[p.Name]; ok {
		if s.version >= p.Version {
			return s.size, s.version, s.version
		}
		known = s.version
	}
	return p.Size, p.Version, known
}

// freeSlots looks at all slots.
func (m *Memory) freeSlots(p Pool) slotView {
	size, version, _ := m.inForce(p)
	s := slotView{state: PoolState{Size: size, Version: version, Free: make([]byte, (size+7)/8)}}
	for i := range size {
		name := SlotName(p.Name, i)
		if h, held := m.holder(name); held || m.foreign[name] {
			if len(s.lives) == 0 {
				s.holder = h.Owner
			}
			s.lives = append(s.lives, h.TTL)
			continue
		}
		s.free = append(s.free, i)
		s.state.Free[i/8] |= 1 << (i % 8)
	}
	slices.Sort(s.lives)
	return s
}

// after returns the time until that many more slots are free, unless a holder releases one earlier.
func (s slotView) after(more int) time.Duration {
	if len(s.lives) == 0 {
		return 0
	}
	return s.lives[max(1, min(more, len(s.lives)))-1]
}

// acquireSlots carries out an Acquire of a pool, after the checks of the node.
func (m *Memory) acquireSlots(op Op) Reply {
	p, id := op.Pool, op.Waiter.ID
	size, version, known := m.inForce(p)
	var denial Holder
	free := 0
	for _, name := range op.Names {
		h, held := m.holder(name)
		switch {
		case held && h.Owner != op.Owner:
			denial = Holder{Name: name, Owner: h.Owner, Token: h.Token}
		case held:
		default:
			free++
			if SlotOf(p.Name, name) >= size && denial.Name == "" {
				denial = Holder{Name: name, Token: m.fence(name)}
			}
		}
	}
	queued := (id != "" || op.Fair) && (len(m.queued(p.Name)) > 0 || m.hasForeign("queue", p.Name))
	if (queued || id != "" && denial.Name != "") && m.isForeign(p.Name, false) {
		return Reply{Err: ErrWrongType}
	}
	if denial.Name != "" || queued && op.Fair && free > 0 {
		s := m.freeSlots(p)
		if r := m.enterPoolQueue(op, denial, s); r.Outcome == Denied {
			return r
		}
	}
	beaten := m.grant(op)
	if queued && id != "" {
		m.recordTaken(p.Name, id)
	}
	if version > known {
		m.sizes[p.Name] = poolSize{size, version}
	}
	return Reply{Outcome: Granted, Token: beaten}
}

// enterPoolQueue enters a waiter into the queue, and makes the denial for slots that are held, or left to
// other waiters.
func (m *Memory) enterPoolQueue(op Op, denial Holder, s slotView) Reply {
	p, id, need := op.Pool, op.Waiter.ID, len(op.Names)
	if id != "" {
		m.addEntry(p.Name, op.Waiter)
	}
	short, first, left := denial.Name != "" && len(s.free) < need, false, false
	if denial.Name == "" {
		denial.TTL, left, first = m.precedingInPool(p.Name, id, need, s)
		if left {
			denial.Name, denial.TTL = op.Names[0], max(denial.TTL, time.Millisecond)
		}
	}
	if id != "" && (first || short) {
		m.recordArrival(p.Name, id)
	}
	if denial.Name == "" {
		return Reply{}
	}
	rank := max(m.queued(p.Name).rank(id), 0)
	if short {
		denial.TTL = s.after(need - len(s.free) + rank)
		denial.Owner = cmp.Or(denial.Owner, s.holder)
	}
	return Reply{Outcome: Denied, Holder: denial, Rank: rank, Pool: s.state}
}

// precedingInPool is the function precedence in pool.lua.
func (m *Memory) precedingInPool(pool, id string, need int, s slotView) (left time.Duration, leaves, first bool) {
	place, dead, taken, q := 0, 0, 0, m.queued(pool)
	for dead < maxDeadWaiters && place < maxScanned {
		if place >= len(q) || q[place].id == id {
			return 0, false, false
		}
		e := q[place]
		count, rest := wanted(e.id), e.woken+wakePrivilege(e.id)-m.clock.Now()
		missing := taken + count - len(s.free)
		switch {
		case count > s.state.Size, e.expected && rest <= 0:
			place++
			continue
		case !e.expected && missing > 0 && m.listens(e.id):
			return s.after(missing), true, place == 0
		case e.expected:
		case missing > 0:
			q = m.dropAt(pool, place)
			dead++
			continue
		case m.deliver(Woken, vacated(pool, s.free[taken:taken+count]), e.id):
			m.recordWake(pool, place)
			rest = wakePrivilege(e.id)
		default:
			q = m.dropAt(pool, place)
			dead++
			continue
		}
		taken, left = taken+count, max(left, rest)
		if taken+need > len(s.free) {
			return left, true, place == 0
		}
		place++
	}
	return basePrivilege, dead == maxDeadWaiters, false
}

// wakeSlots is the function wake in pool.lua.
func (m *Memory) wakeSlots(p Pool, except string, freed []int) {
	if m.foreign[p.Name] || m.isForeign(p.Name, false) || len(m.queued(p.Name)) == 0 {
		return
	}
	s := m.freeSlots(p)
	if len(s.free) == 0 {
		return
	}
	before := func(i int) bool { return !slices.Contains(freed, i) }
	slices.SortStableFunc(s.free, func(a, b int) int { // slots that were freed just now come first
		switch {
		case before(a) == before(b):
			return 0
		case before(a):
			return 1
		default:
			return -1
		}
	})
	kind, spare := Woken, 3
	if except != "" {
		kind, spare = Returned, 1
	}
	place, dead, taken, given, q := 0, 0, 0, 0, m.queued(p.Name)
	for dead < maxDeadWaiters && place < maxScanned && place < len(q) {
		e := q[place]
		count := wanted(e.id)
		fits := taken+count <= len(s.free)
		frozen := e.expected && e.woken+wakePrivilege(e.id) <= m.clock.Now()
		name := vacated(p.Name, nil)
		switch {
		case e.id == except, count > s.state.Size, frozen && (spare == 0 || !fits):
			place++
			continue
		case kind == Woken && e.expected && !frozen:
			if !m.deliver(kind, name, e.id) {
				q = m.dropAt(p.Name, place)
				dead++
				continue
			}
			place++
			if taken += count; taken >= len(s.free) {
				kind = Standby
			}
			continue
		case kind != Standby && !fits:
			if m.listens(e.id) {
				return
			}
			q = m.dropAt(p.Name, place)
			dead++
			continue
		case kind != Standby:
			name = vacated(p.Name, s.free[given:given+count])
		}
		switch {
		case !m.deliver(kind, name, e.id):
			q = m.dropAt(p.Name, place)
			dead++
			continue
		case kind == Standby:
			return
		case kind == Woken:
			m.recordWake(p.Name, place)
		}
		place++
		switch {
		case frozen:
			spare--
		case kind == Returned:
			return
		default:
			given += count
			if taken += count; taken >= len(s.free) {
				kind = Standby
			}
		}
	}
}

// recordTaken is the function took in pool.lua. The time since which the waiter is expected is kept apart, in
// case it gives the slots back.
func (m *Memory) recordTaken(pool, id string) {
	i := m.queued(pool).rank(id)
	if i < 0 {
		return
	}
	m.recordWake(pool, i)
	m.gone[tombstoneKey{pool, id}] = m.queues[pool][i].woken
	m.dropEntry(pool, id)
}

// releaseSlots carries out a Release of a pool.
func (m *Memory) releaseSlots(op Op) Reply {
	removed := 0
	var freed []int
	for _, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner == op.Owner {
			delete(m.locks, name)
			removed++
			freed = append(freed, SlotOf(op.Pool.Name, name))
		}
	}
	p, w := op.Pool, op.Waiter
	if w.ID != "" {
		m.restoreEntry([]string{p.Name}, w)
		delete(m.gone, tombstoneKey{p.Name, w.ID})
	}
	m.wakeSlots(p, w.staying(), freed)
	return released(op, removed)
}

// leaveSlots carries out a Leave of a pool.
func (m *Memory) leaveSlots(op Op) Reply {
	outcome := Absent
	if m.dropEntry(op.Pool.Name, op.Waiter.ID) {
		outcome = Released
	}
	delete(m.gone, tombstoneKey{op.Pool.Name, op.Waiter.ID})
	m.wakeSlots(op.Pool, "", nil)
	return Reply{Outcome: outcome}
}

// resize carries out a Resize.
func (m *Memory) resize(op Op) Reply {
	p := op.Pool
	s := m.sizes[p.Name]
	if p.Version == 0 || s.version > p.Version || s.version == p.Version && s.size != p.Size {
		return Reply{Outcome: Denied, Pool: PoolState{Version: s.version, Size: s.size}}
	}
	m.sizes[p.Name] = poolSize{p.Size, p.Version}
	m.wakeSlots(p, "", nil)
	return Reply{Outcome: Granted}
}
