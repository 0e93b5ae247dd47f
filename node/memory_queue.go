package node

import (
	"cmp"
	"slices"
	"time"
)

// queueEntry is one waiter in the queue of a name.
type queueEntry struct {
	id       string
	ticket   int64
	deadline time.Duration
	// woken is the time since which the waiter is expected, if expected is set.
	woken    time.Duration
	expected bool
}

// queue has the waiters of a name in their order. A change replaces the slice, and may change its entries.
type queue []queueEntry

func (q queue) clone() queue { return slices.Clone(q) }

// rank returns how many waiters stand before this one, or -1.
func (q queue) rank(id string) int {
	return slices.IndexFunc(q, func(e queueEntry) bool { return e.id == id })
}

// isForeign reports whether a key in which the scripts keep the queue of a name belongs to another program. A
// queue without readers has no index of its writers.
func (m *Memory) isForeign(name string, reader bool) bool {
	return m.hasForeign("queue", name) || m.hasForeign("waiting", name) || reader && m.hasForeign("writers", name)
}

// hasForeign reports whether one key of a name belongs to another program.
func (m *Memory) hasForeign(kind, name string) bool {
	return len(m.foreign) > 0 && m.foreign[key(kind, name)]
}

// queued returns the present queue of a name, without waiters whose deadline has passed.
func (m *Memory) queued(name string) queue {
	q, now := m.queues[name], m.clock.Now()
	late := func(e queueEntry) bool { return e.deadline <= now }
	if slices.ContainsFunc(q, late) {
		q = slices.DeleteFunc(q.clone(), late)
		m.setQueue(name, q)
	}
	return q
}

func (m *Memory) setQueue(name string, q queue) {
	if len(q) == 0 {
		delete(m.queues, name)
		return
	}
	m.queues[name] = q
}

// dropEntry removes a waiter from the queue of a name, and reports whether it was there.
func (m *Memory) dropEntry(name, id string) bool {
	q := m.queued(name)
	i := q.rank(id)
	if i < 0 {
		return false
	}
	m.setQueue(name, slices.Delete(q.clone(), i, i+1))
	return true
}

// dropAt removes the waiter at an index, and returns the rest.
func (m *Memory) dropAt(name string, place int) queue {
	q := m.queues[name]
	if place == 0 {
		q = q[1:]
	} else {
		q = slices.Delete(q.clone(), place, place+1)
	}
	m.setQueue(name, q)
	return q
}

// addEntry is the function enter in queue.lua.
func (m *Memory) addEntry(name string, w Waiter) {
	q := m.queued(name).clone()
	e := queueEntry{id: w.ID, ticket: w.Ticket}
	e.woken, e.expected = m.gone[tombstoneKey{name, w.ID}]
	delete(m.gone, tombstoneKey{name, w.ID})
	if i := q.rank(w.ID); i >= 0 {
		e = q[i]
		q = slices.Delete(q, i, i+1)
	}
	keep := w.Keep.Truncate(time.Millisecond)
	if deadline := m.clock.Now() + keep; deadline-e.deadline > keep/32 {
		e.deadline = deadline
	}
	i, _ := slices.BinarySearchFunc(q, e, func(a, b queueEntry) int {
		return cmp.Or(cmp.Compare(a.ticket, b.ticket), cmp.Compare(a.id, b.id))
	})
	m.setQueue(name, slices.Insert(q, i, e))
}

// recordArrival is the function came in queue.lua, for one name.
func (m *Memory) recordArrival(name, id string) {
	if i := m.queued(name).rank(id); i >= 0 {
		m.queues[name][i].expected = false
	}
}

// recordWake records when a waiter was woken.
func (m *Memory) recordWake(name string, place int) {
	if e := &m.queues[name][place]; !e.expected {
		e.woken, e.expected = m.clock.Now(), true
	}
}

// deliver sends a message to a waiter, and reports whether its inbox has a subscriber.
func (m *Memory) deliver(kind MessageKind, name, id string) bool {
	return m.publish(Waiter{ID: id}.client(), Message{Kind: kind, Waiter: id, Name: name, Fence: m.fence(name)})
}

// listens reports whether the client of a waiter has a subscriber. The scripts find that out by a message that
// clients ignore.
func (m *Memory) listens(id string) bool {
	for b := range m.inboxes {
		if b.client == (Waiter{ID: id}).client() && !b.lost {
			return true
		}
	}
	return false
}

// precedenceOver is the function precedence in queue.lua.
func (m *Memory) precedenceOver(name, id string) (left time.Duration, first bool) {
	place, dead, q := 0, 0, m.queued(name)
	for dead < maxDeadWaiters && place < maxScanned {
		if place >= len(q) || q[place].id == id {
			return left, false
		}
		e := q[place]
		rest := e.woken + wakePrivilege(e.id) - m.clock.Now()
		switch {
		case e.expected && rest > 0:
			return cmp.Or(left, rest), place == 0
		case e.expected:
			place++
		case m.deliver(Woken, name, e.id):
			m.recordWake(name, place)
			if place == 0 {
				return wakePrivilege(e.id), true
			}
			place, left = place+1, max(left, wakePrivilege(e.id))
		default:
			q = m.dropAt(name, place)
			dead++
		}
	}
	if dead == maxDeadWaiters {
		left = cmp.Or(left, basePrivilege)
	}
	return left, false
}

// wake is the function of the same name in queue.lua.
func (m *Memory) wake(name, except string) {
	h, shared := m.holder(name)
	if shared && (except != "" || h.Owner != Readers) || m.foreign[name] || m.isForeign(name, false) {
		return
	}
	if shared && m.isHalfExpected(name) {
		return
	}
	kind, spare, reading := Woken, 3, shared
	if except != "" {
		kind, spare = Returned, 1
	}
	place, dead, q := 0, 0, m.queued(name)
	for dead < maxDeadWaiters && place < maxScanned {
		if place >= len(q) {
			return
		}
		e := q[place]
		frozen := m.isUnresponsive(e)
		writes := reading && !reads(e.id)
		if shared && !frozen && (writes || e.expected) {
			return
		}
		message := kind
		if writes {
			message = Standby
		}
		switch {
		case e.id == except, frozen && (writes || spare == 0):
			place++
			continue
		case !m.deliver(message, name, e.id):
			q = m.dropAt(name, place)
			dead++
			continue
		case message == Standby:
			return
		case kind == Woken:
			m.recordWake(name, place)
		}
		place++
		switch {
		case frozen:
			spare--
		case kind == Returned:
			return
		case reads(e.id):
			reading = true
		default:
			kind = Standby
		}
	}
}

// isHalfExpected reports whether half a batch of a name's waiters were woken and have not come since.
func (m *Memory) isHalfExpected(name string) bool {
	q := m.queued(name)
	return len(q) > maxScanned/2 && q[maxScanned/2].expected
}

// isUnresponsive reports whether a waiter was woken and has not come within its privilege.
func (m *Memory) isUnresponsive(e queueEntry) bool {
	return e.expected && e.woken+wakePrivilege(e.id) <= m.clock.Now()
}

func (m *Memory) wakeAll(names []string, except string) {
	for _, name := range names {
		m.wake(name, except)
	}
}

// enqueueDenied enters a waiter into the queues of the names that it was denied or must leave to others. It
// completes the denial. It fails if another program's key is in the place of a queue, and then changes
// nothing.
func (m *Memory) enqueueDenied(op Op, denial *Holder) (rank int, err error) {
	queued := false
	for _, name := range op.Names {
		queued = queued || len(m.queued(name)) > 0 || m.hasForeign("queue", name)
	}
	if op.Waiter.ID == "" && !op.Fair || !queued && (denial.Name == "" || op.Waiter.ID == "") {
		return 0, nil
	}
	for _, name := range op.Names {
		if m.isForeign(name, reads(op.Waiter.ID)) {
			return 0, ErrWrongType
		}
	}
	if denial.Name == "" && !op.Fair {
		return 0, nil
	}
	for _, name := range op.Names {
		if op.Waiter.ID == "" {
			break
		}
		m.addEntry(name, op.Waiter)
		if h, held := m.holder(name); held && h.Owner != op.place() {
			m.recordArrival(name, op.Waiter.ID)
		}
	}
	switch {
	case denial.Name != "":
	case op.Reads:
		*denial = m.writerIntent(op)
	default:
		*denial = m.reservedFor(op)
	}
	return max(m.queued(denial.Name).rank(op.Waiter.ID), 0), nil
}

// reservedFor returns the free name that a fair acquisition must leave to another waiter for the longest
// time, or none.
func (m *Memory) reservedFor(op Op) (denial Holder) {
	for _, name := range op.Names {
		if _, held := m.holder(name); held {
			continue
		}
		left, first := m.precedenceOver(name, op.Waiter.ID)
		if first {
			m.recordArrival(name, op.Waiter.ID)
		}
		if left > denial.TTL {
			denial = Holder{Name: name, TTL: left, Token: m.fence(name)}
		}
	}
	return denial
}

// restoreEntry is the function rejoin in queue.lua.
func (m *Memory) restoreEntry(names []string, w Waiter) {
	for _, name := range names {
		switch {
		case w.ID == "" || m.isForeign(name, reads(w.ID)):
		case w.Keep > 0:
			m.addEntry(name, w)
			m.recordWake(name, m.queues[name].rank(w.ID))
		default:
			m.dropEntry(name, w.ID)
		}
	}
}

// leave removes a waiter from the queues.
func (m *Memory) leave(op Op) Reply {
	if op.ofPool() {
		return m.leaveSlots(op)
	}
	outcome := Absent
	for _, name := range op.Names {
		if m.dropEntry(name, op.Waiter.ID) {
			outcome = Released
		}
	}
	m.wakeAll(op.Names, "")
	return Reply{Outcome: outcome}
}
