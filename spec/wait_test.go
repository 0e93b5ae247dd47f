//go:build !race

package spec

import (
	"fmt"
	"math/bits"
	"slices"
)

const (
	maxWaiters = 3
	waitNodes  = 3
	// A node keeps a lock for lockTTL ticks, and recovers for as long. It leaves a free name to a woken waiter for patience ticks. The
	// waiter behind it stands by for one, and clients beat every beatEvery ticks.
	lockTTL, patience, beatEvery = 9, 2, 6
)

// These faults may happen. A delay lasts for a tick: all that is due, or on its way, waits until then unless it runs before.
const comes, leaves, freezes, thaws, dies, forgets, drops, repeats, delays, faults = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

// waitConfig bounds a model of one lock and its waiters. A waiter asks once, and holds the lock for at most a tick.
type waitConfig struct {
	name  string
	rules []rule // that it shows to be needed
	nodes int
	// programs has the program of each waiter. A waiter comes when those before it in its program are served.
	programs []uint8
	// barges says that the first waiter has no ticket, and asks only once.
	barges, tokens bool
	// awake keeps a program from a freeze and from death while it may have the lock.
	awake  bool
	limits [faults]uint8
	// idle bounds the ticks without a valid lease after the last fault, while a waiter lives.
	idle int
}

const (
	beatsAskAgain      rule = "a beat asks the nodes how its waiters stand"
	expiriesAreAwaited rule = "a waiter tries again when the lock that it met has expired"
	privilegesEnd      rule = "a free name is left to a woken waiter for some time only"
	earlierGoFirst     rule = "a free name is left to an earlier waiter"
	leaversWakeTheNext rule = "a waiter that leaves wakes the next"
	theNextStandsBy    rule = "the waiter behind the woken one stands by"
	undosAreTold       rule = "an undone grant tells the first of the others"
)

const (
	waits phase = over + 1 // for its next attempt
	// Requests run in this order, but the next attempt and its undo run after the undo of the last.
	attempts, undoes, releases, attemptsNext, undoesNext uint8 = 1, 2, 4, 8, 16
	// Messages of nodes, and their votes.
	woken, standsBy, returned                      uint8 = 1, 2, 4
	unasked, refused, denied, granted, grantedOnly uint8 = 0, 1, 2, 3, 4 // the last without taking the token
)

// place is one waiter on one node. expected is 0 if it is not in the queue, 1 if it is, and larger if it is woken: it grows until the
// privilege is over. heard and told say when the waiter expects the node to be free, by its messages and by its answers: 1 is now, and
// 0 is never.
type place struct{ expected, sends, hears, heard, told, vote uint8 }

type waitNode struct {
	holder, left, recovering, fence uint8 // holder is 1 for the first waiter
	of                              [maxWaiters]place
}

// waiter is one call. left is how long its lease is valid, from the begin of the attempt. polls is set if the waiter must ask without a
// message, and called if one message has come since the last attempt.
type waiter struct {
	phase                                                        phase
	ticket, token, left, hold, pause, tries, beat, polls, called uint8
}

type waitState struct {
	tickets, largest uint8 // the last ticket, and the largest token of a lease
	limits           [faults]uint8
	stopped          [maxWaiters]uint8 // programs: 1 is frozen, 2 is dead
	nodes            [waitNodes]waitNode
	waiters          [maxWaiters]waiter
}

type waitModel struct {
	waitConfig
	mutant
}

func (m *waitModel) first() waitState { return waitState{limits: m.limits} }

// tokensOf has all tokens, the smallest first.
func (t *waitState) tokensOf() (all []*uint8) {
	all = append(all, &t.largest)
	for i := range t.nodes {
		all = append(all, &t.nodes[i].fence, &t.waiters[i].token)
	}
	slices.SortFunc(all, func(a, b *uint8) int { return int(*a) - int(*b) })
	return all
}

// canonical keeps only the order of the tokens.
func (m *waitModel) canonical(s *waitState) waitState {
	t, rank, last := *s, uint8(0), uint8(0)
	for _, token := range t.tokensOf() {
		if *token > last {
			rank, last = rank+1, *token
		}
		*token = rank
	}
	sortNodes(t.nodes[:m.nodes], nil)
	return t
}

func (t *waitState) leases() (valid int) {
	for _, x := range t.waiters {
		if x.phase == held && x.left > 0 {
			valid++
		}
	}
	return valid
}

func (m *waitModel) broken(s *waitState) string {
	if s.leases() > 1 {
		return "exclusion: two leases are valid"
	}
	return ""
}

func (m *waitModel) calm(s, t *waitState) bool { return s.limits == t.limits }

func (m *waitModel) within() int { return m.idle }

// waits says that a waiter wants the lock whose program lives.
func (m *waitModel) waits(s *waitState) bool {
	for w, p := range m.programs {
		if x := &s.waiters[w]; s.stopped[p] == 0 && (x.phase == asks || x.phase == waits) {
			return true
		}
	}
	return false
}

// may says whether one more fault of a kind may happen, and counts it.
func (t *waitState) may(f uint8) bool {
	if t.limits[f] == 0 {
		return false
	}
	t.limits[f]--
	return true
}

// next tells all states that can follow one. Time passes when nothing is due, unless there is a delay.
func (m *waitModel) next(s *waitState, emit emit[waitState]) {
	due := false
	act := func(t waitState, broken, step string, args ...any) {
		due = true
		emit(t, broken, step, args...)
	}
	for w, p := range m.programs {
		for n := range m.nodes {
			m.run(s, n, w, act)
			m.hear(s, n, w, act, emit)
		}
		if s.stopped[p] > 0 {
			continue
		}
		m.act(s, w, act)
		x, t, first := &s.waiters[w], *s, w == 0 || m.programs[w-1] != p || s.waiters[w-1].phase == over
		if x.phase == idle && first && t.may(comes) {
			if w > 0 || !m.barges {
				t.tickets++
				t.waiters[w].ticket = t.tickets
			}
			t.ask(m, w)
			emit(t, "", "waiter %d comes", w)
		}
		if (x.phase == asks || x.phase == waits) && t.may(leaves) {
			t.end(m, w, waiter{phase: over, ticket: x.ticket}, releases)
			emit(t, "", "waiter %d leaves", w)
		}
	}
	for n := range m.nodes {
		if t := *s; t.may(forgets) {
			t.nodes[n] = waitNode{recovering: lockTTL, of: t.nodes[n].of}
			for w := range t.nodes[n].of {
				t.nodes[n].of[w].expected = 0
			}
			emit(t, "", "node %d loses its memory", n)
		}
	}
	for p := range s.stopped {
		m.stop(s, p, emit)
	}
	if t := *s; !due || t.may(delays) {
		t.tick(m)
		emit(t, "", [...]string{idleTick, "a tick", "a tick"}[s.leases()])
	}
}

// stop freezes a program or lets it die, or lets a frozen one go on.
func (m *waitModel) stop(s *waitState, p int, emit emit[waitState]) {
	for w, q := range m.programs {
		if x := s.waiters[w].phase; m.awake && p == int(q) && (x == asks || x == held) {
			return
		}
	}
	for _, f := range [...]struct {
		fault, from, to uint8
		step            string
	}{{freezes, 0, 1, "is frozen"}, {thaws, 1, 0, "goes on"}, {dies, 0, 2, "dies"}} {
		if t := *s; s.stopped[p] == f.from && t.may(f.fault) {
			t.stopped[p] = f.to
			emit(t, "", "program %d %s", p, f.step)
		}
	}
}

func (t *waitState) tick(m *waitModel) {
	down := func(least uint8, values ...*uint8) {
		for _, v := range values {
			if *v > least {
				*v--
			}
		}
	}
	for n := range t.nodes {
		d := &t.nodes[n]
		down(0, &d.left, &d.recovering)
		if d.left == 0 {
			d.holder = 0
		}
		for w := range d.of {
			p := &d.of[w]
			if p.expected > 1 && p.expected < patience+2 && m.has(privilegesEnd) {
				p.expected++
			}
			down(1, &p.heard, &p.told)
		}
	}
	for w := range t.waiters {
		x := &t.waiters[w]
		down(0, &x.left, &x.hold, &x.pause, &x.beat)
	}
}

// act runs the next step of a waiter, if it is due.
func (m *waitModel) act(s *waitState, w int, act emit[waitState]) {
	t := *s
	switch x := &t.waiters[w]; x.phase {
	case asks:
		m.decide(&t, w, act)
	case waits:
		free := 0
		for n := range m.nodes {
			if p := &s.nodes[n].of[w]; p.heard == 1 || p.told == 1 {
				free++
			}
		}
		if x.pause == 0 && (free > m.nodes/2 || x.polls+x.called > 0) {
			t.ask(m, w)
			act(t, "", "waiter %d tries again", w)
		}
		if t := *s; x.beat == 0 && m.has(beatsAskAgain) {
			t.waiters[w].beat = beatEvery
			for n := range m.nodes {
				if p := &t.nodes[n].of[w]; p.sends == 0 {
					p.expected = max(p.expected, 1)
					p.told = m.stand(&t, n, w) + 1
				}
			}
			act(t, "", "waiter %d beats", w)
		}
	case held:
		if x.hold == 0 || x.left == 0 {
			t.end(m, w, waiter{phase: over, ticket: x.ticket}, releases)
			act(t, "", "waiter %d releases", w)
		}
	}
}

// ask begins an attempt. The next one pauses, unless a message comes.
func (t *waitState) ask(m *waitModel, w int) {
	x := &t.waiters[w]
	*x = waiter{phase: asks, ticket: x.ticket, left: lockTTL, beat: x.beat, pause: x.tries, tries: 1}
	if m.tokens {
		x.token = *t.tokensOf()[2*waitNodes] + 1
	}
	for n := range m.nodes {
		p := &t.nodes[n].of[w]
		*p = place{expected: p.expected, sends: p.sends&^undoesNext | attemptsNext, hears: p.hears}
		p.advance()
	}
}

// advance sends the next attempt if the last one, and its undo, have run.
func (p *place) advance() {
	if p.sends&(attempts|undoes) == 0 {
		p.sends |= p.sends >> 3 & (attempts | undoes)
		p.sends &^= attemptsNext | undoesNext
	}
}

// decide ends an attempt when enough nodes have answered.
func (m *waitModel) decide(t *waitState, w int, act emit[waitState]) {
	x, need, broken := &t.waiters[w], m.nodes/2+1, ""
	var votes [5]int
	for n := range m.nodes {
		votes[t.nodes[n].of[w].vote]++
	}
	switch {
	case votes[granted] >= need && x.left > 0:
		if m.tokens && x.token <= t.largest {
			broken = "tokens grow"
		}
		t.largest = x.token
		t.end(m, w, waiter{phase: held, ticket: x.ticket, left: x.left, hold: 1}, 0)
		act(*t, broken, "waiter %d holds the lock", w)
	case votes[granted]+votes[grantedOnly] >= need && x.left > 0:
		x.token = *t.tokensOf()[2*waitNodes] + 1
		for n := range m.nodes {
			if p := &t.nodes[n].of[w]; p.vote >= granted {
				p.vote, p.sends = unasked, p.sends|attempts
			}
		}
		act(*t, "", "waiter %d proposes a larger token", w)
	case x.left == 0 || votes[denied]+votes[refused] > m.nodes-need:
		*x = waiter{phase: waits, ticket: x.ticket, pause: x.pause, tries: x.tries, called: x.called, beat: x.beat}
		if x.beat == 0 {
			x.beat = beatEvery
		}
		if votes[denied] <= m.nodes-need { // it cannot be sure that a node wakes it
			x.polls, x.pause = 1, 1
		}
		for n := range m.nodes {
			p := &t.nodes[n].of[w]
			switch {
			case p.vote >= granted:
				p.sends, p.heard = p.sends|undoes, 1
			case p.sends&attemptsNext != 0:
				p.sends |= undoesNext
			case p.sends&attempts != 0:
				p.sends |= undoes
			}
			p.vote = unasked
		}
		if x.ticket == 0 {
			t.end(m, w, waiter{phase: over, ticket: x.ticket}, releases)
		}
		act(*t, "", "the attempt of waiter %d fails", w)
	}
}

// end makes something else of a waiter, with these requests. A release removes it from the queues, and frees its nodes.
func (t *waitState) end(m *waitModel, w int, x waiter, sends uint8) {
	t.waiters[w] = x
	for n := range m.nodes {
		p := &t.nodes[n].of[w]
		*p = place{expected: p.expected, sends: p.sends | sends, hears: p.hears}
	}
}

// run runs the first request of a waiter that is on its way to a node. Its answer arrives at once.
func (m *waitModel) run(s *waitState, n, w int, act emit[waitState]) {
	if s.nodes[n].of[w].sends == 0 {
		return
	}
	t, broken := *s, ""
	d := &t.nodes[n]
	p, own := &d.of[w], d.holder == uint8(w+1)
	request := bits.TrailingZeros8(p.sends)
	p.sends &^= 1 << request
	if own && request > 0 {
		d.holder, d.left = 0, 0
	}
	switch uint8(1) << request {
	case undoes:
		if !own {
			break
		}
		if p.expected < 2 {
			p.expected = 2
		}
		m.wake(&t, n, w)
	case releases:
		if p.expected = 0; own || m.has(leaversWakeTheNext) {
			m.wake(&t, n, -1)
		}
	default:
		broken = m.attempt(&t, n, w)
	}
	p.advance()
	act(t, broken, "the %s of waiter %d runs on node %d", [...]string{"attempt", "undo", "release"}[request], w, n)
}

// attempt runs an acquisition. If an undo is behind it, its attempt is over.
func (m *waitModel) attempt(t *waitState, n, w int) (broken string) {
	d, x := &t.nodes[n], &t.waiters[w]
	p, vote, left := &d.of[w], refused, uint8(0)
	undone := p.sends&undoes != 0
	if d.recovering == 0 {
		if x.ticket > 0 {
			p.expected = max(p.expected, 1)
		}
		if vote, left = denied, m.stand(t, n, w); left == 0 {
			vote, d.holder, d.left = granted, uint8(w+1), lockTTL
			if p.expected == 1 {
				p.expected = 2
			}
			for _, v := range m.before(t, n, w) {
				if e := d.of[v].expected; e > 1 && e < patience+2 {
					broken = fmt.Sprintf("order: waiter %d takes the name before waiter %d", w, v)
				}
			}
		}
	}
	switch {
	case undone && vote != granted:
		p.sends &^= undoes
	case undone || x.phase != asks:
	case vote == granted:
		if m.tokens && d.fence >= x.token && m.has(majorityTakesTheToken) {
			vote = grantedOnly
		}
		d.fence = max(d.fence, x.token)
	}
	if x.phase == asks && !undone {
		p.vote = vote
	}
	switch {
	case x.phase != asks && x.phase != waits:
	case vote == denied:
		p.told = left + 1
	case vote == granted && undone:
		p.heard = 1
	}
	return broken
}

// before has the waiters before one in the queue of a node. All are before a waiter without a ticket.
func (m *waitModel) before(t *waitState, n, w int) (all []int) {
	for v := range m.programs {
		own := t.waiters[max(w, 0)].ticket
		if t.nodes[n].of[v].expected > 0 && v != w && (w < 0 || own == 0 || t.waiters[v].ticket < own) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b int) int { return int(t.waiters[a].ticket) - int(t.waiters[b].ticket) })
	return all
}

// stand returns for how many ticks the waiter cannot have the node, unless it is freed sooner.
func (m *waitModel) stand(t *waitState, n, w int) (left uint8) {
	d := &t.nodes[n]
	if d.holder == uint8(w+1) {
		return 0
	}
	if d.holder > 0 {
		d.of[w].expected = min(d.of[w].expected, 1)
		if !m.has(expiriesAreAwaited) {
			return 10 * lockTTL
		}
		return d.left
	}
	rank := 0
	for _, v := range m.before(t, n, w) {
		p := &d.of[v]
		wakes := p.expected == 1
		if !m.has(earlierGoFirst) || wakes && !m.send(t, n, v, woken) {
			continue
		}
		if rank++; wakes {
			p.expected = 2
		}
		if p.expected > patience+1 { // it has not come in time, so those behind it are woken too
			continue
		}
		left = max(left, patience+2-p.expected)
		if rank == 1 {
			d.of[w].expected = min(d.of[w].expected, 1)
		}
		if rank == 1 || !wakes {
			break
		}
	}
	if left > 0 && rank > 1 {
		left += patience // the second one has its turn, too
	}
	return left
}

// send sends a message to a waiter, unless its program is dead. Then the waiter leaves the queue.
func (m *waitModel) send(t *waitState, n, w int, message uint8) bool {
	p := &t.nodes[n].of[w]
	if t.stopped[m.programs[w]] == 2 {
		p.expected = 0
		return false
	}
	p.hears |= message
	return true
}

// wake wakes the first waiter of a free node. If a waiter has undone its grant, the first of the others only hears of that.
func (m *waitModel) wake(t *waitState, n, except int) {
	d, message, spare := &t.nodes[n], woken, 3
	if except >= 0 {
		message, spare = returned, 1
	}
	if d.holder > 0 || message == returned && !m.has(undosAreTold) {
		return
	}
	for _, w := range m.before(t, n, -1) {
		p := &d.of[w]
		frozen := p.expected > patience+1
		if w == except || frozen && spare == 0 || !m.send(t, n, w, message) {
			continue
		}
		if message == woken && p.expected == 1 {
			p.expected = 2
		}
		switch {
		case message == standsBy:
			return
		case frozen:
			spare--
		case message == returned || !m.has(theNextStandsBy):
			return
		default:
			message = standsBy
		}
	}
}

// hear delivers a message to a waiter, or loses it. A client tells the node if it no longer has the waiter.
func (m *waitModel) hear(s *waitState, n, w int, act, emit emit[waitState]) {
	for _, message := range []uint8{woken, standsBy, returned} {
		t := *s
		p, x := &t.nodes[n].of[w], &t.waiters[w]
		if p.hears&message == 0 {
			continue
		}
		p.hears &^= message
		if t := t; t.may(drops) {
			emit(t, "", "a message of node %d to waiter %d is lost", n, w)
		}
		if s.stopped[m.programs[w]] > 0 {
			continue
		}
		switch {
		case x.phase == over:
			p.sends |= releases
		case x.phase == held:
		case message == woken:
			p.heard, x.called, x.tries, x.pause = 1, 1, 0, 0
		case message == returned:
			p.heard = 1
		case p.heard == 0:
			p.heard = 2
		}
		name := [...]string{1: "woken", 2: "standby", 4: "returned"}[message]
		act(t, "", "waiter %d hears %s from node %d", w, name, n)
		if t.may(repeats) {
			t.nodes[n].of[w].hears |= message
			emit(t, "", "waiter %d hears %s from node %d, and once more soon", w, name, n)
		}
	}
}

// queued has a waiter of each program, or more.
func queued(name string, nodes, idle int, programs []uint8, change func(*waitConfig), rules ...rule) waitConfig {
	c := waitConfig{name: name, rules: rules, nodes: nodes, idle: idle, programs: programs}
	c.limits[comes] = uint8(len(programs))
	change(&c)
	return c
}

var queuesOf2, queuesOf3, aLaterCall = []uint8{0, 1}, []uint8{0, 1, 2}, []uint8{0, 0, 1}

var waitTrials = []waitConfig{
	queued("waiters: what is lost or comes twice, of two nodes", 2, 6, queuesOf2, func(c *waitConfig) {
		c.limits[drops], c.limits[repeats] = 1, 1
	}, beatsAskAgain),
	queued("waiters: what is lost or comes twice, of three nodes", 3, 0, queuesOf2, func(c *waitConfig) {
		c.limits[drops], c.limits[repeats] = 1, 1
	}),
	queued("waiters: a holder that dies", 3, 9, queuesOf2, func(c *waitConfig) { c.limits[drops], c.limits[dies] = 1, 1 }, expiriesAreAwaited),
	queued("waiters: a node that forgets", 3, 2, queuesOf2, func(c *waitConfig) { c.limits[forgets] = 1 }),
	queued("waiters: tokens that are late", 2, 0, queuesOf2, func(c *waitConfig) { c.tokens, c.limits[delays] = true, 1 }),
	queued("waiters: a frozen one that goes on", 2, 9, queuesOf2, func(c *waitConfig) { c.limits[freezes], c.limits[thaws] = 1, 1 }),
	queued("waiters: three", 2, 0, aLaterCall, func(*waitConfig) {}, undosAreTold),
	queued("waiters: one that leaves", 1, 0, queuesOf3, func(c *waitConfig) { c.limits[leaves], c.limits[delays] = 1, 1 }, leaversWakeTheNext),
	queued("waiters: dead ones", 1, 2, queuesOf3, func(c *waitConfig) { c.awake, c.limits[dies] = true, 2 }),
	queued("waiters: frozen ones", 1, 2, queuesOf3, func(c *waitConfig) {
		c.awake, c.limits[freezes], c.limits[thaws] = true, 2, 1
	}, privilegesEnd, theNextStandsBy),
	queued("waiters: one that barges", 1, 2, queuesOf3, func(c *waitConfig) {
		c.awake, c.barges, c.limits[freezes], c.limits[thaws] = true, true, 2, 1
	}, earlierGoFirst),
}
