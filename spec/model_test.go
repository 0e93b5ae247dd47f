//go:build !race

package spec

import "fmt"

const (
	maxNodes  = 4
	maxOwners = 3
	// maxSent is how many acquisitions, and how many renewals, an owner may send.
	maxSent = 2
	// start is the time at which a run begins. It leaves room for times before.
	start = 10
)

// config bounds a model. Times are in ticks.
type config struct {
	name string
	// rules are those that it shows to be needed.
	rules []rule
	// lists has the nodes of each owner, as bits. A majority of them grants a lease.
	lists []uint8
	// readers is how many of the owners, counted from the first, only read.
	readers int
	// ttl is the TTL of renewals and the longest TTL; acquireTTL is the TTL of acquisitions.
	ttl, acquireTTL uint8
	// drift is taken off each TTL by the client, and skew is how far the wall clocks may differ.
	drift, skew uint8
	// behind is how far the wall clock of a client may be behind, beyond skew.
	behind uint8
	// horizon is how long a run lasts.
	horizon uint8
	// losses bounds the losses of memory in one run, lags how many ticks the clocks of clients lose in one run, and
	// renewals those of one owner.
	losses, lags, renewals uint8
	// writes bounds how often nodes write their memory to disk in one run. A node may come back with what it wrote.
	writes uint8
	// tokens gives leases fencing tokens. Without it, all tokens are equal.
	tokens bool
	// raises lets an owner propose a second, larger token.
	raises bool
	// late lets requests run after the end of their owner.
	late bool
	// lateAnswers lets owners process answers in a later tick than that in which the request ran.
	lateAnswers bool
	// moves is when the last program leaves the list of the first owner, in a change of nodes from there over the list of the
	// second owner to that of the third; 0 if no list changes. added is the node that is new, and has no memory.
	moves uint8
	added int

	// slots has the permits that each owner asks for, as bits; nil for a lock. sizes has the size of the semaphore that the
	// programs have, and then those that are set, one after the other.
	slots []uint8
	sizes []uint8
	// block is how many tokens beyond its first an acquisition reserves, for leases that are handed over.
	block uint8
	// downgrades lets writers become readers.
	downgrades bool
}

// rule names one rule of the protocol. A mutant is the model without one.
type rule string

const (
	complete                rule = ""
	newMemoryRecovers       rule = "a node with a new memory grants nothing during its recovery"
	recoveryLastsLongestTTL rule = "a recovery lasts as long as the longest TTL"
	recoveryIncludesSkew    rule = "a recovery also lasts as long as clocks may differ"
	renewalsSeeNewMemory    rule = "a renewal begins the recovery of a node with a new memory"
	healsNeedAClaim         rule = "a renewal counts on a recovering node only if the claim there is active"
	validFromTheSend        rule = "a claim counts from the time of the send"
	driftIsTakenOff         rule = "drift is taken off each TTL"
	acquisitionsKeepTheLife rule = "an acquisition never shortens the lock of its owner"
	renewalsKeepTheLife     rule = "a renewal never shortens the lock of its owner"
	renewalsTakeNothing     rule = "a renewal does not take the lock of another owner"
	releasesFreeTheirOwn    rule = "a release frees only the lock of its owner"
	oldTokensAreRefused     rule = "a node refuses a token that is older than the longest TTL"
	majorityTakesTheToken   rule = "a majority takes the token of a lease"
	writersWaitForReaders   rule = "a writer waits for readers"
	stepsWait               rule = "the next list but one waits for the longest TTL"
	stepsWaitForSkew        rule = "it also waits for as long as clocks may differ"

	permitsAreSlots     rule = "each permit is a lock of its own, not one of a number that a node counts"
	nodesDenyBeyondSize rule = "a node denies permits beyond the size that it knows"
	laterSizesStay      rule = "a node keeps the size that was set later"
	majorityHasTheSize  rule = "a majority has the size before the call returns"

	noneAfterTheRelease   rule = "no lease is handed over once the release was sent"
	claimsAreHandedOver   rule = "the next lease has the claims of the former, and no more"
	tokensStayInTheBlock  rule = "the tokens of leases that are handed over are in the block"
	fenceIsTheBlocksEnd   rule = "a node remembers the end of the block"
	firstTokenIsCompared  rule = "a node compares the first token of the block"
	blocksEndIsNotTooLate rule = "a node refuses a block whose end is too far ahead"

	downgradesKeepTheLife rule = "a downgrade does not shorten the lock"
	downgradesTakeNothing rule = "a downgrade does not take the lock of another writer"
	readersStayReaders    rule = "a late request of a writer that became a reader does not take the lock from readers"
	readersWaitForWriters rule = "a reader waits for a writer"

	readersFollowWriters  rule = "the token of a reader is as large as that of each writer before"
	majorityHasReadTokens rule = "a majority has the token of a reader"
	fencesNeedAClaim      rule = "a reader counts what a node told it only while its claim there is active"
	forgottenTokensCount  rule = "a node that has forgotten its fence tells a reader what it may have forgotten"
)

type phase uint8

const (
	idle phase = iota
	asks
	held
	over
)

// node is one server. claim, took and answers belong to owners, and stand here since there is one for each node.
type node struct {
	// until is when the lock of each owner expires; 0 if it has none.
	until [maxOwners]uint8
	fence uint8
	// forgot says that the memory is new and no script has seen that. recovering is the end of the recovery.
	forgot, recovering uint8
	savedUntil         [maxOwners]uint8
	savedFence         uint8
	// shared has the writers that are readers here, as bits. version is the number of the size that the node knows.
	shared, version           uint8
	savedShared, savedVersion uint8

	// claim is until when each owner counts on this node, by its own clock.
	claim [maxOwners]uint8
	// took has the owners whose present token the node took, as bits.
	took uint8
	// answers has the answers on their way to each owner, as bits: see answerBit.
	answers [maxOwners]uint8
	// told is the largest fence that the node has told each reader.
	told [maxOwners]uint8
	// confirmed has the sizes that the node has confirmed, as bits.
	confirmed uint8
}

// answerBit is the bit of an answer. second says that the node did not take the token of an acquisition, or was
// recovering at a renewal.
func answerBit(renewal bool, sent int, second bool) uint8 {
	bit := sent * 2
	if renewal {
		bit += 2 * maxSent
	}
	if second {
		bit++
	}
	return 1 << bit
}

// owner is one lease, from its first request on. Its times are by its own clock, which counts from start.
type owner struct {
	phase phase
	clock uint8
	// lagged is when the clock last stood still, by true time; 0 if that is a TTL ago.
	lagged       uint8
	token        uint8
	acquisitions uint8
	acquiredAt   [maxSent]uint8
	proposed     [maxSent]uint8
	renewals     uint8
	renewedAt    [maxSent]uint8
	validUntil   uint8
	released     bool

	// passed is how often the lease was handed over.
	passed uint8
	// shared is one more than the renewals that the owner sent before it became a reader; 0 if it did not.
	shared uint8
	// readToken is the token of a reader, once enough nodes have told theirs. before is the largest token when it began.
	readToken, before uint8
	// version is the number of the size that the owner knows. settled is the one that counted when it asked.
	version, settled uint8
}

func (o *owner) valid() bool { return o.phase == held && o.clock < o.validUntil }

// state is one state. It is comparable, so that it can be the key of a map.
type state struct {
	now, losses, writes, lags uint8
	// fresh says that since the last tick nothing has happened but answers that arrived.
	fresh uint8
	// largest is the largest token of a lease so far, and written that of a writer; only readers need the second.
	largest, written uint8
	// resizes is how many sizes were set. settled is the last that counts: a call has returned, and so many nodes know the
	// size or a later one that the others are no majority.
	resizes, settled uint8
	nodes            [maxNodes]node
	owners           [maxOwners]owner
}

// model has the rules: a config, and the rule that is left out.
type model struct {
	config
	mutant
	// orders has the orders of owners that change nothing, once they are needed.
	orders [][]int
}

func (m *model) nodes() int {
	var all uint8
	for _, list := range m.lists {
		all |= list
	}
	n := 0
	for all>>n != 0 {
		n++
	}
	return n
}

func (m *model) uses(o, n int) bool { return m.lists[o]>>n&1 == 1 }

func (m *model) need(o int) int {
	size := 0
	for n := range maxNodes {
		if m.uses(o, n) {
			size++
		}
	}
	return size/2 + 1
}

func (m *model) reads(o int) bool { return o < m.readers }

// recovery is how long a node with a new memory grants nothing.
func (m *model) recovery() uint8 {
	switch m.without {
	case newMemoryRecovers:
		return 0
	case recoveryLastsLongestTTL:
		return m.ttl + m.skew - 2
	case recoveryIncludesSkew:
		return m.ttl
	}
	return m.ttl + m.skew
}

// first is the state in which a run begins.
func (m *model) first() state {
	s := state{now: start}
	if m.moves > 0 {
		s.nodes[m.added].forgot = 1
	}
	return s
}

// running says whether the program of an owner runs, with the owner's list of nodes. Before the third list is used, leases
// that were granted under the first one have ended.
func (m *model) running(s *state, o int) bool {
	left, wait := start+m.moves, m.ttl+m.skew
	switch m.without {
	case stepsWait:
		wait = 0
	case stepsWaitForSkew:
		wait = m.ttl
	}
	return m.moves == 0 || o == 1 || o == 0 && s.now <= left || o == 2 && s.now >= left+wait
}

// counted is how long a client counts on a lock that a node keeps for ttl.
func (m *model) counted(ttl uint8) uint8 {
	if m.has(driftIsTakenOff) {
		ttl -= m.drift
	}
	return ttl
}

// answered emits what follows when a request has run on a node: the owner processes the answer at once or, with
// lateAnswers, right after a later tick. An answer that is lost needs no state of its own, nor other moments: an owner that
// has processed more can do all that it could do before, and what it counts depends on the tick only.
func (m *model) answered(t state, o, n int, renewal bool, i int, second bool, emit emit[state], step string) {
	w := &t.owners[o]
	if w.phase != asks && !w.valid() {
		emit(t, "", step, i, o, n)
		return
	}
	if m.tokens && m.reads(o) { // one that has heard fewer fences acts under a larger token
		emit(t, "", step+", and its answer is lost", i, o, n)
	}
	if m.lateAnswers {
		waiting := t
		waiting.nodes[n].answers[o] |= answerBit(renewal, i, second)
		emit(waiting, "", step+", and its answer is late", i, o, n)
	}
	m.count(&t, o, n, renewal, i, second)
	emit(t, "", step, i, o, n)
}

// next tells all states that can follow one.
func (m *model) next(s *state, emit emit[state]) {
	if s.fresh == 1 {
		for o := range m.lists {
			for n := range m.nodes() {
				m.process(s, o, n, emit)
			}
		}
	}
	m.tick(s, emit)
	t := *s
	t.fresh = 0
	s = &t
	for n := range m.nodes() {
		m.lose(s, n, emit)
	}
	m.resize(s, emit)
	for o := range m.lists {
		m.propose(s, o, emit)
		m.writeBack(s, o, emit)
		m.sendRenewal(s, o, emit)
		m.downgrade(s, o, emit)
		m.handOver(s, o, emit)
		m.win(s, o, emit)
		m.end(s, o, emit)
		for n := range m.nodes() {
			if !m.uses(o, n) {
				continue
			}
			w := &s.owners[o]
			if w.phase != over || m.late {
				for i := range int(w.acquisitions) {
					m.runAcquisition(s, o, n, i, emit)
				}
				for i := range int(w.renewals) {
					m.runRenewal(s, o, n, i, emit)
				}
			}
			m.runRelease(s, o, n, emit)
		}
	}
}

// tick lets time pass. The clocks of some owners stand still, each for one tick in a TTL at most.
func (m *model) tick(s *state, emit emit[state]) {
	if s.now >= start+m.horizon {
		return
	}
	for still := range uint8(1) << len(m.lists) {
		t := *s
		t.now++
		possible := true
		for o := range m.lists {
			w := &t.owners[o]
			if w.phase != asks && w.phase != held {
				possible = possible && still>>o&1 == 0
				continue
			}
			if still>>o&1 == 1 {
				possible = possible && w.lagged == 0 && m.drift > 0
				t.lags++
				w.lagged = s.now
				continue
			}
			w.clock++
			if w.lagged != 0 && t.now-w.lagged >= m.ttl {
				w.lagged = 0
			}
		}
		if !possible || t.lags > m.lags {
			continue
		}
		m.forget(&t)
		for n := range t.nodes {
			if t.nodes[n].answers != [maxOwners]uint8{} {
				t.fresh = 1
			}
		}
		emit(t, "", "a tick, without the clocks %02b", still)
	}
}

// forget clears what has ended, or can change nothing any more, so that fewer states differ.
func (m *model) forget(s *state) {
	for n := range s.nodes {
		d := &s.nodes[n]
		for o := range maxOwners {
			if d.until[o] <= s.now {
				d.until[o] = 0
				d.shared &^= 1 << o
			}
			if d.savedUntil[o] <= s.now {
				d.savedUntil[o] = 0
				d.savedShared &^= 1 << o
			}
			w := &s.owners[o]
			if d.claim[o] <= w.clock {
				d.claim[o] = 0
			}
			for i := range maxSent {
				if w.acquiredAt[i]+m.counted(m.acquireTTL) <= w.clock && m.has(validFromTheSend) {
					d.answers[o] &^= answerBit(false, i, false) | answerBit(false, i, true)
				}
				if w.renewedAt[i]+m.counted(m.ttl) <= w.clock && m.has(validFromTheSend) {
					d.answers[o] &^= answerBit(true, i, false) | answerBit(true, i, true)
				}
			}
		}
		if d.recovering <= s.now {
			d.recovering = 0
		}
	}
}

// lose lets a node lose its memory, or write it to its disk.
func (m *model) lose(s *state, n int, emit emit[state]) {
	if s.losses >= m.losses {
		return
	}
	d := &s.nodes[n]
	t := *s
	t.losses++
	e := &t.nodes[n]
	e.forgot, e.until, e.fence, e.shared, e.version = 1, [maxOwners]uint8{}, 0, 0, 0
	m.unsettle(&t)
	emit(t, "", "node %d loses its memory", n)
	if m.writes == 0 {
		return
	}
	e.until, e.fence, e.shared, e.version = d.savedUntil, d.savedFence, d.savedShared, d.savedVersion
	t.settled, t.owners = s.settled, s.owners
	m.unsettle(&t)
	emit(t, "", "node %d comes back with its disk", n)
	if s.writes >= m.writes {
		return
	}
	t = *s
	t.writes++
	e.savedUntil, e.savedFence, e.savedShared, e.savedVersion = d.until, d.fence, d.shared, d.version
	if t.nodes[n] != *d {
		emit(t, "", "node %d writes its disk", n)
	}
}

// propose sends an acquisition, with each token that nodes may accept, or a second one with a larger token.
func (m *model) propose(s *state, o int, emit emit[state]) {
	w := &s.owners[o]
	again := w.phase == asks && w.acquisitions < maxSent && m.raises && m.tokens && !m.reads(o)
	if w.phase != idle && !again || !m.running(s, o) {
		return
	}
	least, most := s.now-m.skew-m.behind, s.now+m.skew
	if !m.tokens {
		least = most
	}
	for token := least; token <= most; token++ {
		if again && token <= w.token {
			continue
		}
		m.proposeToken(s, o, again, token, emit)
	}
}

// proposeToken sends an acquisition with a token. The owner may know any size that was set.
func (m *model) proposeToken(s *state, o int, again bool, token uint8, emit emit[state]) {
	for version := range s.resizes + 1 {
		t := *s
		v := &t.owners[o]
		if !again {
			v.phase, v.clock, v.version, v.settled = asks, start, version, s.settled
			if m.reads(o) {
				v.before = s.largest
			}
		}
		v.acquiredAt[v.acquisitions], v.proposed[v.acquisitions] = v.clock, token
		v.acquisitions++
		v.token = token
		for n := range t.nodes {
			t.nodes[n].took &^= 1 << o
		}
		emit(t, "", "owner %d proposes %d", o, token)
	}
}

// blocked says whether another owner's lock excludes this one from a node. reads says whether the request is a reader's.
func (m *model) blocked(s *state, d *node, o int, reads bool) bool {
	if m.slots != nil && !m.has(permitsAreSlots) {
		return m.full(s, d, o)
	}
	if !reads && d.shared>>o&1 == 1 {
		return m.has(readersStayReaders)
	}
	for p := range m.lists {
		if p == o || d.until[p] == 0 || m.slotsOf(o)&m.slotsOf(p) == 0 {
			continue
		}
		shared := m.reads(p) || d.shared>>p&1 == 1
		switch {
		case shared && reads, shared && !m.has(writersWaitForReaders), !shared && reads && !m.has(readersWaitForWriters):
			continue
		}
		return true
	}
	return false
}

// runAcquisition runs a request to acquire on a node.
func (m *model) runAcquisition(s *state, o, n, i int, emit emit[state]) {
	w, t := &s.owners[o], *s
	d := &t.nodes[n]
	token := w.proposed[i]
	if d.forgot == 1 {
		d.forgot = 0
		if m.has(newMemoryRecovers) {
			d.recovering = s.now + m.recovery()
			emit(t, "", "acquisition %d of owner %d begins the recovery of node %d", i, o, n)
			return
		}
	}
	switch {
	case d.recovering > s.now, m.ahead(token) > s.now+m.skew, m.blocked(s, d, o, m.reads(o)), m.beyond(w, d, o),
		token+m.ttl <= s.now && m.has(oldTokensAreRefused) && (!m.reads(o) || i == 0):
		return
	}
	m.writeAgain(d, o)
	d.version = max(d.version, w.version)
	if m.tokens && m.reads(o) {
		d.fence = m.fenceForReader(s, d, w, i)
	}
	until := s.now + m.acquireTTL
	if m.has(acquisitionsKeepTheLife) {
		until = max(until, d.until[o])
	}
	d.until[o] = until
	took := m.reads(o) || !m.tokens || d.fence < m.compared(token)
	if m.tokens && !m.reads(o) {
		d.fence = max(d.fence, m.remembered(token))
	}
	m.answered(t, o, n, false, i, !took, emit, "acquisition %d of owner %d runs on node %d")
}

// sendRenewal sends a renewal of a valid lease, one in a tick.
func (m *model) sendRenewal(s *state, o int, emit emit[state]) {
	w := &s.owners[o]
	if !w.valid() || !m.running(s, o) || w.renewals >= m.renewals || w.renewals > 0 && w.renewedAt[w.renewals-1] == w.clock {
		return
	}
	t := *s
	v := &t.owners[o]
	v.renewedAt[v.renewals] = v.clock
	v.renewals++
	emit(t, "", "owner %d renews", o)
}

// runRenewal runs a renewal on a node, which puts the lock back if it is gone.
func (m *model) runRenewal(s *state, o, n, i int, emit emit[state]) {
	w, t := &s.owners[o], *s
	d := &t.nodes[n]
	downgraded := w.shared != 0 && i >= int(w.shared)-1
	if m.blocked(s, d, o, m.reads(o) || downgraded) {
		if m.has(renewalsTakeNothing) && (m.has(downgradesTakeNothing) || !downgraded) {
			return
		}
		d.until = [maxOwners]uint8{}
	}
	if d.forgot == 1 && m.has(renewalsSeeNewMemory) {
		d.forgot, d.recovering = 0, s.now+m.recovery()
	}
	until := s.now + m.ttl
	if downgraded && !m.has(downgradesKeepTheLife) {
		until = s.now + 1
	} else if m.has(renewalsKeepTheLife) {
		until = max(until, d.until[o])
	} else if d.until[o] > s.now+1 {
		until = s.now + 1 // a shorter TTL than that of the request before
	}
	d.until[o] = until
	if m.tokens && !m.reads(o) {
		d.fence = max(d.fence, m.remembered(w.token))
	}
	if downgraded {
		d.shared |= 1 << o
	} else {
		m.writeAgain(d, o)
	}
	m.answered(t, o, n, true, i, d.recovering > s.now, emit, "renewal %d of owner %d runs on node %d")
}

// runRelease runs a release, or an undo, on a node.
func (m *model) runRelease(s *state, o, n int, emit emit[state]) {
	if !s.owners[o].released {
		return
	}
	t := *s
	d := &t.nodes[n]
	if d.until[o] != 0 {
		d.until[o] = 0
		d.shared &^= 1 << o
		emit(t, "", "the release of owner %d runs on node %d", o, n)
	} else if !m.has(releasesFreeTheirOwn) && d.until != [maxOwners]uint8{} {
		d.until = [maxOwners]uint8{}
		emit(t, "", "the release of owner %d frees node %d", o, n)
	}
}

// process lets an owner process an answer that is on its way, whichever is the next.
func (m *model) process(s *state, o, n int, emit emit[state]) {
	for i := range maxSent {
		for _, second := range []bool{false, true} {
			for _, renewal := range []bool{false, true} {
				bit := answerBit(renewal, i, second)
				if s.nodes[n].answers[o]&bit == 0 {
					continue
				}
				t := *s
				t.nodes[n].answers[o] &^= bit
				m.count(&t, o, n, renewal, i, second)
				if *s != t {
					emit(t, "", "owner %d processes a late answer of node %d", o, n)
				}
			}
		}
	}
}

// count lets an owner count an answer.
func (m *model) count(s *state, o, n int, renewal bool, i int, second bool) {
	w, d := &s.owners[o], &s.nodes[n]
	if w.phase != asks && !w.valid() {
		return
	}
	if renewal {
		if !second || d.claim[o] > w.clock || !m.has(healsNeedAClaim) {
			m.confirm(s, o, n, w.renewedAt[i], m.ttl)
		}
		return
	}
	if w.proposed[i] == w.token && (!m.tokens || !m.reads(o)) && (!second || !m.has(majorityTakesTheToken)) {
		d.took |= 1 << o
	}
	m.confirm(s, o, n, w.acquiredAt[i], m.acquireTTL)
	if m.tokens && m.reads(o) {
		m.hear(s, o, n)
	}
}

// confirm counts a node's answer. A valid lease becomes longer, never shorter.
func (m *model) confirm(s *state, o, n int, sent, ttl uint8) {
	w := &s.owners[o]
	if !m.has(validFromTheSend) {
		sent = w.clock
	}
	if until := sent + m.counted(ttl); until > w.clock {
		s.nodes[n].claim[o] = max(s.nodes[n].claim[o], until)
	}
	if w.phase == held {
		w.validUntil = max(w.validUntil, m.backedUntil(s, o))
	}
}

// backedUntil is until when enough nodes back the lease of an owner.
func (m *model) backedUntil(s *state, o int) uint8 {
	var until uint8
	for n := range s.nodes {
		backing := 0
		for k := range s.nodes {
			if s.nodes[k].claim[o] >= s.nodes[n].claim[o] {
				backing++
			}
		}
		if backing >= m.need(o) {
			until = max(until, s.nodes[n].claim[o])
		}
	}
	return until
}

// win makes a lease of an acquisition that enough nodes have granted.
func (m *model) win(s *state, o int, emit emit[state]) {
	w := &s.owners[o]
	if w.phase != asks {
		return
	}
	granted, took := 0, 0
	for n := range s.nodes {
		if s.nodes[n].claim[o] > w.clock {
			granted++
			took += int(s.nodes[n].took >> o & 1)
		}
	}
	needTook := m.need(o)
	if !m.has(majorityTakesTheToken) {
		needTook = 1
	}
	if m.tokens && m.reads(o) {
		if took = m.have(s, o, true); !m.has(majorityHasReadTokens) {
			needTook = 1
		}
		if m.has(fencesNeedAClaim) && m.tokenOf(s, o, true) > w.readToken {
			return
		}
	}
	if granted < m.need(o) || took < needTook {
		return
	}
	t := *s
	v := &t.owners[o]
	v.phase, v.validUntil = held, m.backedUntil(s, o)
	broken := m.tooLarge(s, o)
	if m.tokens && !m.reads(o) {
		if v.token <= s.largest {
			broken = "tokens grow"
		}
		t.largest, t.written = max(s.largest, v.token), max(s.written, v.token)
	} else if m.tokens {
		broken = m.winToken(&t, o)
	}
	emit(t, broken, "owner %d holds the lock with token %d", o, v.token)
}

// end ends a lease, or gives an acquisition up. What the owner sent may still run.
func (m *model) end(s *state, o int, emit emit[state]) {
	if s.owners[o].phase != asks && s.owners[o].phase != held || s.owners[o].released {
		return
	}
	t := *s
	v := &t.owners[o]
	if v.phase == held && !m.has(noneAfterTheRelease) {
		v.released = true
		emit(t, "", "owner %d releases, and hands over", o)
		return
	}
	if m.late {
		*v = owner{
			phase: over, released: true, token: v.token,
			acquisitions: v.acquisitions, proposed: v.proposed, renewals: v.renewals,
			shared: v.shared, version: v.version,
		}
	} else {
		*v = owner{phase: over, released: true}
	}
	for n := range t.nodes {
		d := &t.nodes[n]
		d.claim[o], d.answers[o], d.told[o] = 0, 0, 0
		d.took &^= 1 << o
	}
	emit(t, "", "owner %d releases, or gives up", o)
}

// broken names an invariant that a state breaks, or is empty.
func (m *model) broken(s *state) string {
	for o := range m.lists {
		if !s.owners[o].valid() {
			continue
		}
		for p := range o {
			if s.owners[p].valid() && m.slotsOf(o)&m.slotsOf(p) != 0 && (!m.nowReads(s, o) || !m.nowReads(s, p)) {
				return fmt.Sprintf("exclusion: owners %d and %d", p, o)
			}
		}
		backing := 0
		for n := range m.nodes() {
			d := &s.nodes[n]
			if m.uses(o, n) && (d.until[o] != 0 || d.forgot == 1 || d.recovering > s.now) {
				backing++
			}
		}
		if backing < m.need(o) {
			return fmt.Sprintf("backing: owner %d is valid, and too few nodes have its lock or recover", o)
		}
	}
	return m.tooMany(s)
}
