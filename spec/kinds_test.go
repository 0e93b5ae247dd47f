//go:build !race

package spec

import (
	"fmt"
	"math/bits"
	"slices"
)

// This file has what the other kinds of locks add to the model: permits and sizes of a semaphore, leases that are handed
// over, writers that become readers, and the tokens of readers.

func (m *model) slotsOf(o int) uint8 {
	if m.slots == nil {
		return 1
	}
	return m.slots[o]
}

// full says that a node which counts has no permit left: the mutant without permitsAreSlots.
func (m *model) full(s *state, d *node, o int) bool {
	taken := 0
	for p := range m.lists {
		if p != o && d.until[p] != 0 {
			taken += bits.OnesCount8(m.slots[p])
		}
	}
	return taken+bits.OnesCount8(m.slots[o]) > int(m.sizes[s.resizes])
}

// beyond says whether an owner asks for a permit beyond the later of the sizes that the owner and the node know. An owner keeps
// what it has.
func (m *model) beyond(w *owner, d *node, o int) bool {
	version := max(d.version, w.version)
	if !m.has(nodesDenyBeyondSize) {
		version = w.version
	}
	return m.slots != nil && d.until[o] == 0 && bits.Len8(m.slots[o]) > int(m.sizes[version])
}

// resize lets a program set the next size, and lets each node learn a size that was set: now, late, twice, or never.
func (m *model) resize(s *state, emit emit[state]) {
	if int(s.resizes)+1 < len(m.sizes) {
		t := *s
		t.resizes++
		emit(t, "", "size %d is set to %d", t.resizes, m.sizes[t.resizes])
	}
	for version := uint8(1); version <= s.resizes; version++ {
		for n := range m.nodes() {
			if s.nodes[n].version > version && m.has(laterSizesStay) {
				continue
			}
			t := *s
			d := &t.nodes[n]
			d.version = version
			d.confirmed |= 1 << version
			m.settle(&t, version)
			if t != *s {
				emit(t, "", "node %d learns size %d", n, version)
			}
		}
	}
}

// settle lets the call that sets a size return, once enough nodes have confirmed it. If too many of these have forgotten the
// size since, the size does not count.
func (m *model) settle(s *state, version uint8) {
	confirmed, known := 0, 0
	for n := range m.nodes() {
		if d := &s.nodes[n]; d.confirmed>>version&1 == 1 {
			confirmed++
			if d.version >= version || !m.has(laterSizesStay) {
				known++
			}
		}
	}
	need := m.need(0)
	if !m.has(majorityHasTheSize) {
		need = 1
	}
	if confirmed >= need && known >= need {
		s.settled = max(s.settled, version)
	}
}

// unsettle is for losses: once a majority lacks the size, programs may use the sizes that they have.
func (m *model) unsettle(s *state) {
	lacks := 0
	for n := range m.nodes() {
		if s.nodes[n].version < s.settled {
			lacks++
		}
	}
	if s.settled > 0 && lacks >= m.need(0) {
		s.settled = 0
		for o := range s.owners {
			s.owners[o].settled = 0
		}
	}
}

// largestSize is the largest size that an acquisition may have met which began when size number from counted.
func (m *model) largestSize(s *state, from uint8) int {
	size := 0
	for _, z := range m.sizes[from : s.resizes+1] {
		size = max(size, int(z))
	}
	return size
}

// tooLarge names the promise that an owner breaks who gets a permit beyond the size.
func (m *model) tooLarge(s *state, o int) string {
	if m.slots == nil || bits.Len8(m.slots[o]) <= m.largestSize(s, s.owners[o].settled) {
		return ""
	}
	return fmt.Sprintf("size: owner %d gets a permit beyond it", o)
}

// tooMany names the promise that a state breaks in which there are more permits than there ever were while the
// owners asked.
func (m *model) tooMany(s *state) string {
	if m.slots == nil {
		return ""
	}
	permits, from := 0, s.resizes
	for o := range m.lists {
		if w := &s.owners[o]; w.valid() {
			permits += bits.OnesCount8(m.slots[o])
			from = min(from, w.settled)
		}
	}
	if permits > m.largestSize(s, from) {
		return fmt.Sprintf("size: %d permits are valid", permits)
	}
	return ""
}

// The tokens of an acquisition are a block: the first one, and those that are reserved for leases that are handed over.

func (m *model) ahead(token uint8) uint8 {
	if m.has(blocksEndIsNotTooLate) {
		token += m.block
	}
	return token
}

func (m *model) compared(token uint8) uint8 {
	if !m.has(firstTokenIsCompared) {
		token += m.block
	}
	return token
}

func (m *model) remembered(token uint8) uint8 {
	if m.has(fenceIsTheBlocksEnd) {
		token += m.block
	}
	return token
}

// handOver ends a lease, and begins the next one of the same client, with the next token of the block.
func (m *model) handOver(s *state, o int, emit emit[state]) {
	w, block := &s.owners[o], m.block
	if !m.has(tokensStayInTheBlock) {
		block++
	}
	if m.block == 0 || !w.valid() || w.passed >= block || w.shared != 0 {
		return
	}
	t := *s
	v := &t.owners[o]
	v.passed++
	if !m.has(claimsAreHandedOver) {
		v.validUntil = v.clock + m.counted(m.ttl)
	}
	broken, token := "", v.token+v.passed
	if token <= s.largest {
		broken = "tokens grow"
	}
	t.largest = max(s.largest, token)
	emit(t, broken, "owner %d hands over to a lease with token %d", o, token)
}

// nowReads says whether an owner has a reader's lease.
func (m *model) nowReads(s *state, o int) bool { return m.reads(o) || s.owners[o].shared != 0 }

// downgrade makes a reader of a writer, at once. The renewal that tells the nodes may run late or never.
func (m *model) downgrade(s *state, o int, emit emit[state]) {
	w := &s.owners[o]
	if !m.downgrades || m.reads(o) || !w.valid() || w.shared != 0 || w.renewals >= m.renewals {
		return
	}
	t := *s
	v := &t.owners[o]
	v.renewedAt[v.renewals] = v.clock
	v.renewals++
	v.shared = v.renewals
	emit(t, "", "owner %d becomes a reader", o)
}

// writeAgain makes a writer's lock of an owner's lock on a node. Without readersStayReaders, this removes all readers.
func (m *model) writeAgain(d *node, o int) {
	if d.shared>>o&1 == 0 {
		return
	}
	for p := range m.lists {
		if p != o && (m.reads(p) || d.shared>>p&1 == 1) {
			d.until[p] = 0
		}
	}
	d.shared = 0
}

// fenceForReader is the fence of a node after a reader's request. The first request carries the reader's clock, and the second
// one a token that the node must have. A node that has forgotten its fence takes one that is as large as all that it may have
// forgotten, and smaller than any token that it still accepts.
func (m *model) fenceForReader(s *state, d *node, w *owner, i int) uint8 {
	fence, clock := d.fence, w.proposed[0]
	if fence == 0 {
		if fence = 1; m.has(forgottenTokensCount) {
			fence = max(min(clock, clock+m.skew-m.ttl), s.now-m.ttl)
		}
	}
	if i > 0 {
		fence = max(fence, w.proposed[i])
	}
	return fence
}

// hear lets a reader hear the fence of a node, and know its token once enough nodes have told theirs.
func (m *model) hear(s *state, o, n int) {
	w := &s.owners[o]
	s.nodes[n].told[o] = max(s.nodes[n].told[o], s.nodes[n].fence)
	if token := m.tokenOf(s, o, false); token > 0 && (w.readToken == 0 || token < w.readToken) {
		w.readToken = token
	}
}

// tokenOf is the token that a reader would have by the fences that it was told, or by those of the nodes on which it has a claim;
// 0 if these are too few. A writer's token is on half of the nodes of a reader's list at least, which may have one node more.
func (m *model) tokenOf(s *state, o int, claimed bool) uint8 {
	var told []uint8
	nodes := 0
	for k := range m.nodes() {
		d := &s.nodes[k]
		if m.uses(o, k) {
			nodes++
		}
		if d.told[o] > 0 && (!claimed || d.claim[o] > s.owners[o].clock) {
			told = append(told, d.told[o])
		}
	}
	if len(told) < m.need(o) {
		return 0
	}
	slices.Sort(told)
	if !m.has(readersFollowWriters) {
		return told[0]
	}
	return told[nodes/2]
}

// have counts the nodes that have told a reader a fence as large as its token.
func (m *model) have(s *state, o int, claimed bool) (n int) {
	w := &s.owners[o]
	for k := range m.nodes() {
		if d := &s.nodes[k]; w.readToken > 0 && d.told[o] >= w.readToken && (!claimed || d.claim[o] > w.clock) {
			n++
		}
	}
	return n
}

// writeBack asks the nodes to keep a reader's token, if too few have it.
func (m *model) writeBack(s *state, o int, emit emit[state]) {
	w := &s.owners[o]
	if w.phase != asks || w.readToken == 0 || w.acquisitions != 1 || m.have(s, o, false) >= m.need(o) {
		return
	}
	t := *s
	v := &t.owners[o]
	v.acquiredAt[1], v.proposed[1], v.acquisitions = v.clock, v.readToken, 2
	emit(t, "", "owner %d writes token %d back", o, v.readToken)
}

// winToken decides the token of a reader, or names the promise that it breaks.
func (m *model) winToken(s *state, o int) (broken string) {
	w := &s.owners[o]
	w.token = w.readToken
	if w.token < max(s.written, w.before) {
		broken = "tokens grow: a reader has a smaller one than a lease before"
	}
	s.largest = max(s.largest, w.token)
	return broken
}
