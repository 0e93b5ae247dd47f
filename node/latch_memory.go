package node

import (
	"maps"
	"slices"
	"time"
)

// latchState is the state of a latch on an in-memory node; see the function latches of the scripts.
type latchState struct {
	generation, since, last uint64
	count                   int
	// whole is the end of the recovery after which the latch was given back.
	whole int64
	// born is when the node learned that the latch is set.
	born int64
	ids  map[string]struct{}
	// expiry is the end of the latch's life. awaiting has the deadlines of the inboxes of waiting clients.
	expiry   time.Duration
	awaiting map[string]time.Duration
}

func (l latchState) clone() latchState {
	l.ids, l.awaiting = maps.Clone(l.ids), maps.Clone(l.awaiting)
	return l
}

// latched returns a latch as it is now. It forgets what has expired.
func (m *Memory) latched(name string) latchState {
	l, ok := m.latches[name]
	if ok && l.expiry <= m.clock.Now() {
		delete(m.latches, name)
		l = latchState{awaiting: l.awaiting}
	}
	return l
}

func (m *Memory) latch(op Op) Reply {
	refusal, left := m.guard(op)
	if refusal.Err != nil {
		return refusal
	}
	ask, name := op.Latch, op.Names[0]
	if !ask.Exact && isImplausible(op.Token, op.Token, m.time(), op.Limits) {
		return clockRefusal(m.time(), op)
	}
	l := m.latched(name)
	void := ask.Exact && l.generation < ask.Generation
	here := l.count
	if void {
		here = 0
	}
	serves := l.generation < op.Token
	if ask.Exact {
		serves = l.generation <= ask.Generation
	}
	sets := serves && ask.Count > 0 && (here == 0 || here != ask.Count && ask.Chosen)
	if sets && left > 0 && ask.First {
		return recoveringRefusal(left, op.Limits.Recovery(), m.marker.HadMarker)
	}
	if serves && void && ask.Void && ask.Count == 0 {
		l, void = m.beginLatch(op, l, ask.Generation), false
	}
	if ask.Count > 0 {
		serves = serves && (sets || here == ask.Count)
	} else {
		serves = serves && !void && (len(ask.IDs) == 0 || here > 0)
	}
	if serves && (sets || here > 0) {
		l = m.applyLatch(op, l, void, sets)
	}
	return m.latchReply(op, l, serves, left)
}

// applyLatch carries out an operation that the node serves.
func (m *Memory) applyLatch(op Op, l latchState, void, sets bool) latchState {
	ask, name, now := op.Latch, op.Names[0], m.clock.Now()
	if void {
		m.wakeLatch(name, &l)
		l = latchState{generation: ask.Generation, expiry: l.expiry}
	}
	before := len(l.ids)
	if sets || ask.Count > 0 && ask.Since < l.since {
		l.count, l.since = ask.Count, ask.Since
	}
	if l.ids == nil {
		l.ids = make(map[string]struct{})
	}
	if l.born == 0 {
		l.born = m.time()
	}
	for _, id := range ask.IDs {
		if len(l.ids) < l.count {
			l.ids[id] = struct{}{}
		}
	}
	news := sets || len(l.ids) > before
	if news && !ask.Exact {
		l.last = max(l.last, op.Token)
	}
	if ask.Whole != 0 && ask.Whole == m.marker.Until {
		l.whole = ask.Whole
	}
	l.expiry = max(l.expiry, now+op.TTL)
	switch {
	case len(l.ids) >= l.count && news:
		m.wakeLatch(name, &l)
	case ask.Keep == 0:
		delete(l.awaiting, ask.Inbox)
	case len(l.ids) < l.count && ask.Inbox != "":
		if l.awaiting == nil {
			l.awaiting = make(map[string]time.Duration)
		}
		l.awaiting[ask.Inbox] = max(l.awaiting[ask.Inbox], now+ask.Keep)
	}
	m.latches[name] = l
	return l
}

func (m *Memory) unlatch(op Op) Reply {
	refusal, left := m.guard(op)
	switch {
	case refusal.Err != nil:
		return refusal
	case isImplausible(op.Token, op.Token, m.time(), op.Limits):
		return clockRefusal(m.time(), op)
	}
	l := m.latched(op.Names[0])
	switch {
	case op.Token == l.generation:
		return m.latchReply(op, l, true, left)
	case op.Token <= max(l.generation, l.since, l.last):
		return m.latchReply(op, l, false, left)
	}
	return m.latchReply(op, m.beginLatch(op, l, op.Token), true, left)
}

// beginLatch forgets a latch, and begins another generation.
func (m *Memory) beginLatch(op Op, l latchState, generation uint64) latchState {
	m.wakeLatch(op.Names[0], &l)
	l = latchState{generation: generation, expiry: max(l.expiry, m.clock.Now()+op.TTL)}
	m.latches[op.Names[0]] = l
	return l
}

// wakeLatch tells all waiting clients.
func (m *Memory) wakeLatch(name string, l *latchState) {
	for _, inbox := range slices.Sorted(maps.Keys(l.awaiting)) {
		if l.awaiting[inbox] > m.clock.Now() {
			m.publish(inbox, Message{Kind: Counted, Waiter: inbox, Name: name})
		}
	}
	l.awaiting = nil
}

func (m *Memory) latchReply(op Op, l latchState, done bool, left time.Duration) Reply {
	s := &LatchState{
		Generation: l.generation, Count: l.count, Since: l.since, Last: l.last,
		Until: m.marker.Until, Whole: l.whole == m.marker.Until && l.whole != 0, Size: len(l.ids), Born: l.born,
	}
	if op.Latch != nil && op.Latch.List {
		s.IDs = slices.Sorted(maps.Keys(l.ids))
	}
	r := Reply{Outcome: Denied, Latch: s, Recovering: left, HadMarker: left > 0 && m.marker.HadMarker}
	if done {
		r.Outcome = Granted
	}
	return r
}
