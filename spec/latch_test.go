//go:build !race

package spec

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	latchNodes = 3
	latchNeed  = 2
	maxCalls   = 4
)

// latchConfig bounds a model of one latch on three nodes, of which two must agree. A prompt round ends in the tick in which it
// began, so nodes are restored by rounds that begin in a later tick than the loss.
type latchConfig struct {
	name  string
	rules []rule // that it shows to be needed
	// calls begin in this order. Each is one round; a call that fails is not repeated.
	calls []latchCall
	// count is the number to which the latch is set, and set has the nodes on which it is at the beginning, as bits.
	count, set uint8
	// recovery is how long a node with a new memory recovers. skew is how far the clock of a client may be ahead of others.
	recovery, skew  uint8
	losses, horizon uint8
	// slow is how far the clock of the first node is behind the others. If it is not 0, a run begins a tick after a deletion and
	// a Set by a client whose clock is ahead by skew; the first node has missed both.
	slow uint8
	// open is how many calls may run at once. One more begins only if the oldest gives up; its requests may still run.
	open int
	// disk lets nodes come back with the state of the beginning.
	disk bool
	// exception leaves out runs in which a node has recovered without the state that it forgot. If no node that answers
	// knows of the latch then, it counts as not set (docs/guarantees.md).
	exception bool
}

type callKind uint8

const (
	sets callKind = iota
	counts
	reads
	deletes
)

func (k callKind) String() string { return [...]string{"Set", "CountDown", "Count", "Delete"}[k] }

type latchCall struct {
	kind callKind
	id   uint8 // of a count-down, as a bit
}

const (
	forgetfulNodesAreNoWitness rule = "a node that lost its memory is no witness, unless it forgot nothing that matters"
	slowRoundsAreConfirmed     rule = "a round that is not prompt is confirmed"
	restoredLater              rule = "no client restores a node right after its loss"
	restoredForOneLoss         rule = "a node is restored for one loss only"
	resultsAreOnAMajority      rule = "a result is on a majority before it is told"
	unionsAreWritten           rule = "what one node knows counts"
	lateCountDownsAreRefused   rule = "a node refuses a count-down from before its generation"
	recoveringNodesSetNothing  rule = "a recovering node is not set anew"
	stateAheadIsRefused        rule = "a node takes no state from others that is too far ahead of its clock"
	oldStateIsVoid             rule = "ids of an earlier generation are void"
)

// latchView is the knowledge of a node about the latch, or of several nodes together.
type latchView struct {
	generation, since, ids uint8
	set                    bool
}

// latchOf is one call on one node: the node's last answer to it, and the state that the call gives the node.
type latchOf struct {
	told, refilled, recovering bool
	known                      latchView
	lost                       uint8
	// ran says that the node has answered the request of the call. deleted says that the node confirmed the deletion.
	ran, deleted bool
	// gives says that a request is on its way which gives the node the rest of the state; given, that it was answered.
	gives, given bool
	gift         latchView
	whole        uint8
	kept         bool
}

type latchNode struct {
	is         latchView
	last, slow uint8
	// forgot says that the memory is new and no script has seen that. lost is when one has, and whole the loss after which
	// the node was restored.
	forgot      bool
	lost, whole uint8
	of          [maxCalls]latchOf
}

// openCall is one call. target is what it tells once enough nodes have it.
type openCall struct {
	phase       phase
	at, token   uint8
	since       uint8 // of a Set
	target      latchView
	aims, again bool
	// epoch is that of the state when the call began; must has the ids that it must find, and mustSet says that the latch
	// was set.
	epoch, must uint8
	mustSet     bool
}

// latchState is one state of the model.
type latchState struct {
	now, losses, begun uint8
	nodes              [latchNodes]latchNode
	calls              [maxCalls]openCall

	// What callers know. epoch is 0 before a deletion, 1 while it runs, and 2 after it. confirmed has the ids that were counted
	// down, and void those whose count-downs had returned when the deletion began, until they are counted down again.
	epoch, deletion                   uint8
	confirmed, returned, void, wasSet uint8
	// excused says that nothing is promised any more.
	excused bool
}

type latchModel struct {
	latchConfig
	mutant
}

func (m *latchModel) first() latchState {
	s := latchState{now: start}
	if m.slow > 0 {
		s.now, s.epoch, s.deletion, s.wasSet = start+1, 2, start+m.skew, 1
		s.nodes[0].slow = m.slow
		for n := range s.nodes[1:] {
			s.nodes[1+n].is = latchView{generation: s.deletion, since: s.now + m.skew, set: true}
		}
	}
	for n := range s.nodes {
		if m.set>>n&1 == 1 {
			s.nodes[n].is = latchView{since: start - 1, set: true}
			s.nodes[n].last = start - 1
			s.wasSet = 1
		}
	}
	return s
}

// canonical sorts the nodes, which are alike. It drops requests that can change nothing any more.
func (m *latchModel) canonical(s *latchState) latchState {
	t := *s
	for n := range t.nodes {
		d := &t.nodes[n]
		for c := range d.of {
			a := &d.of[c]
			if !a.gives || d.slow > 0 || t.losses < m.losses || d.forgot || a.told && !a.given && t.calls[c].phase == asks {
				continue
			}
			if after := *d; true {
				if m.take(&t, &after, a); after == *d {
					a.gift, a.whole = latchView{}, 0
					a.gives = t.calls[c].phase == asks
				}
			}
		}
	}
	sortNodes(t.nodes[:], nil)
	return t
}

// broken checks the result of a call that asks some nodes just now, and has all answers at once.
func (m *latchModel) broken(s *latchState) string {
	for asked := 1; asked < 1<<latchNodes; asked++ {
		var answers [latchNodes]latchOf
		t := *s
		for n := range answers {
			if asked>>n&1 == 1 {
				recovering := m.see(&t, n)
				answers[n] = m.answer(&t, n, recovering)
			}
		}
		v := m.view(answers[:], 0)
		if broken := m.judge(s, &v, s.epoch, s.confirmed, s.wasSet == 1); !t.excused && m.known(&v, answers[:]) && broken != "" {
			return broken
		}
	}
	return ""
}

// judge names the promise that is broken if a call returns v that began in an epoch, and must find the latch set and these ids.
func (m *latchModel) judge(s *latchState, v *latchView, epoch, must uint8, set bool) string {
	switch {
	case set && !v.set:
		return "the latch is set, and a call says that it is not"
	case v.set && !m.done(v.ids) && must&^v.ids != 0:
		return "a count-down that was confirmed is missing"
	case epoch == 2 && v.set && v.generation < s.deletion:
		return "a deletion that was confirmed is missing"
	case epoch == 2 && v.ids&s.void != 0:
		return "a count-down from before the deletion counts"
	}
	return ""
}

func (m *latchModel) done(ids uint8) bool { return bits.OnesCount8(ids) >= int(m.count) }

// next tells all states that can follow one.
func (m *latchModel) next(s *latchState, emit emit[latchState]) {
	if s.excused {
		return
	}
	if s.now < start+m.horizon {
		t := *s
		t.now++
		emit(t, "", "a tick")
	}
	for n := range s.nodes {
		m.lose(s, n, emit)
	}
	if int(s.begun) < len(m.calls) {
		m.begin(s, emit)
	}
	for c := range s.begun {
		m.tell(s, int(c), emit)
		for n := range s.nodes {
			m.run(s, int(c), n, emit)
			m.give(s, int(c), n, emit)
			m.ask(s, int(c), n, emit)
		}
	}
}

// lose lets a node lose its memory, or come back with that of the beginning. If too many have lost the latch, nothing is
// promised.
func (m *latchModel) lose(s *latchState, n int, emit emit[latchState]) {
	if s.losses >= m.losses {
		return
	}
	t := *s
	t.losses++
	d := &t.nodes[n]
	*d = latchNode{forgot: true, lost: d.lost, slow: d.slow, of: d.of}
	lost := 0
	for _, d := range t.nodes {
		if d.forgot || d.lost != d.whole {
			lost++
		}
	}
	t.excused = lost > latchNodes-latchNeed
	emit(t, "", "node %d loses its memory", n)
	if m.disk && m.set>>n&1 == 1 {
		d.is, d.last = latchView{since: start - 1, set: true}, start-1
		emit(t, "", "node %d comes back with its disk", n)
	}
}

// begin begins the next call. The clock of its client may be ahead.
func (m *latchModel) begin(s *latchState, emit emit[latchState]) {
	c := int(s.begun)
	kind := m.calls[c].kind
	for ahead := range m.skew + 1 {
		t := *s
		t.begun++
		for open, i := 1, c-1; i >= 0; i-- {
			if t.calls[i].phase != asks {
				continue
			}
			if open++; open > m.open {
				t.end(i)
			}
		}
		x := &t.calls[c]
		*x = openCall{phase: asks, at: s.now, token: s.now + ahead, epoch: s.epoch, must: s.confirmed, mustSet: s.wasSet == 1}
		switch kind {
		case sets, counts:
			if kind == sets {
				x.since = x.token
			}
			x.token -= m.skew
			if s.epoch == 2 && m.slow == 0 {
				x.token = max(x.token, s.deletion+1)
			}
			t.void &^= m.calls[c].id
		case deletes:
			t.epoch, t.deletion, t.void = 1, x.token, s.returned
			t.confirmed, t.wasSet = 0, 0
			for i := range t.calls {
				t.calls[i].must, t.calls[i].mustSet = 0, false
			}
		}
		emit(t, "", "call %d begins: %v, with token %d", c, kind, x.token)
	}
}

// see lets a script see that the memory is new, and says whether the node recovers.
func (m *latchModel) see(s *latchState, n int) bool {
	d := &s.nodes[n]
	if d.forgot {
		d.forgot, d.lost = false, s.now-d.slow
	}
	return d.lost != 0 && s.now-d.slow < d.lost+m.recovery
}

// run runs the request of a call on a node: now, late, twice, or never. The answer may get lost.
func (m *latchModel) run(s *latchState, c, n int, emit emit[latchState]) {
	t, call := *s, m.calls[c]
	d, x := &t.nodes[n], &t.calls[c]
	if call.kind == reads && x.phase == over {
		return
	}
	recovering, confirmed := m.see(&t, n), false
	if clock := s.now - d.slow; call.kind != reads && (max(x.token, x.since) > clock+m.skew ||
		x.token+m.recovery-m.skew <= clock && m.has(oldTokensAreRefused)) {
		return
	}
	switch current := d.is.generation < x.token; call.kind {
	case sets:
		if current && !d.is.set {
			if recovering && m.has(recoveringNodesSetNothing) {
				emit(t, "", "node %d is not set by call %d: it recovers", n, c)
				return
			}
			d.is.set, d.is.since, d.last = true, x.since, max(d.last, x.token)
		}
	case counts:
		if (current || !m.has(lateCountDownsAreRefused)) && d.is.set {
			if !m.done(d.is.ids) {
				d.is.ids |= call.id
			}
			d.last = max(d.last, x.token)
		}
	case deletes:
		if confirmed = d.is.generation == x.token; !confirmed && x.token > max(d.is.generation, d.is.since, d.last) {
			confirmed = true
			d.is = latchView{generation: x.token}
			d.last, d.whole = 0, 0
		}
	}
	if x.phase != asks || x.again || d.of[c].ran {
		if t != *s {
			emit(t, "", "call %d runs on node %d late", c, n)
		}
		return
	}
	d.of[c].deleted = confirmed
	m.answered(&t, c, n, recovering)
	emit(t, "", "call %d runs on node %d", c, n)
}

// knowsNothing says whether a node was not told of the latch since it has forgotten it, or only by a call that set it anew.
func (m *latchModel) knowsNothing(s *latchState, n int) bool {
	is := s.nodes[n].is
	for _, d := range s.nodes {
		if d.is.set && d.is.generation == is.generation && d.is.since < is.since {
			return true
		}
	}
	return !is.set
}

// answer is what a node answers.
func (m *latchModel) answer(s *latchState, n int, recovering bool) latchOf {
	d := &s.nodes[n]
	s.excused = s.excused || m.exception && d.lost != d.whole && !recovering && m.knowsNothing(s, n)
	return latchOf{
		told: true, recovering: recovering, known: d.is, lost: d.lost, refilled: d.lost != 0 && d.whole == d.lost,
	}
}

// answers are those to a call; kept says that only nodes count which were asked again.
func (m *latchModel) answers(s *latchState, c int, kept bool) (as [latchNodes]latchOf) {
	for n := range as {
		if a := &s.nodes[n].of[c]; a.told && (!kept || a.kept) {
			as[n] = *a
		}
	}
	return as
}

// answered records the state of a node for a call. Once enough nodes that remember everything have answered, the others are
// given what they lack.
func (m *latchModel) answered(s *latchState, c, n int, recovering bool) {
	d, x := &s.nodes[n], &s.calls[c]
	a := m.answer(s, n, recovering)
	a.ran, a.deleted, a.gives, a.given, a.gift, a.whole = true, d.of[c].deleted, d.of[c].gives, d.of[c].given, d.of[c].gift, d.of[c].whole
	d.of[c] = a
	if m.calls[c].kind == deletes {
		return
	}
	as := m.answers(s, c, false)
	v := m.view(as[:], m.calls[c].id)
	if !m.known(&v, as[:]) {
		return
	}
	if !x.aims || x.target.generation != v.generation || x.target.set != v.set || x.target.since != v.since {
		x.aims, x.target = true, v
	}
	for n := range s.nodes {
		a := &s.nodes[n].of[c]
		if !a.told || a.gives {
			continue
		}
		forgot, restores := x.target.set && !m.member(&x.target, a), false
		if forgot && m.calls[c].kind == reads {
			restores = x.at > a.lost+s.nodes[n].slow || !m.has(restoredLater)
			if !restores {
				continue
			}
		} else if m.holds(&x.target, a) {
			continue
		}
		a.gives, a.gift = true, x.target
		if restores {
			a.whole = a.lost
		}
	}
}

// view combines answers. A call knows its own count-down.
func (m *latchModel) view(as []latchOf, own uint8) (v latchView) {
	for n := range as {
		v.generation = max(v.generation, as[n].known.generation)
	}
	for n := range as {
		a := &as[n]
		if !a.told || a.known.generation != v.generation && m.has(oldStateIsVoid) {
			continue
		}
		if a.known.set {
			if !v.set || a.known.since < v.since {
				v.since = a.known.since
			}
			v.set = true
		}
		v.ids |= a.known.ids
	}
	if v.set {
		v.ids |= own
	}
	return v
}

// known says whether enough nodes are witnesses: they would know what had happened.
func (m *latchModel) known(v *latchView, as []latchOf) bool {
	witnesses := 0
	for n := range as {
		if as[n].told && m.member(v, &as[n]) {
			witnesses++
		}
	}
	return witnesses >= latchNeed
}

// member says whether a node is a witness.
func (m *latchModel) member(v *latchView, a *latchOf) bool {
	before := func(token uint8) bool { return a.lost+m.skew < token }
	switch {
	case !m.has(forgetfulNodesAreNoWitness):
		return !a.recovering
	case !v.set:
		return !a.recovering
	case a.lost == 0, a.refilled && a.known.generation == v.generation:
		return true
	}
	return before(v.generation) || a.known.generation == v.generation && a.known.set && before(v.since)
}

// holds says whether a node has all of a result.
func (m *latchModel) holds(v *latchView, a *latchOf) bool {
	return a.told && a.known.generation == v.generation && a.known.set == v.set && a.known.since == v.since &&
		(!v.set || m.done(a.known.ids) || v.ids&^a.known.ids == 0)
}

// take gives a node what it lacks.
func (m *latchModel) take(s *latchState, d *latchNode, a *latchOf) {
	g := a.gift
	ahead := max(g.generation, g.since) > s.now-d.slow+m.skew
	if d.is.generation > g.generation || ahead && m.has(stateAheadIsRefused) {
		return
	}
	if d.is.generation < g.generation {
		d.is, d.last, d.whole = latchView{generation: g.generation}, 0, 0
	}
	if g.set {
		if !d.is.set || g.since < d.is.since {
			d.is.since = g.since
		}
		d.is.set = true
		if !m.done(d.is.ids) {
			d.is.ids |= g.ids
		}
	}
	if a.whole != 0 && (a.whole == d.lost || !m.has(restoredForOneLoss)) {
		d.whole = d.lost
	}
}

// give runs a request on a node that gives it what it lacks.
func (m *latchModel) give(s *latchState, c, n int, emit emit[latchState]) {
	if !s.nodes[n].of[c].gives {
		return
	}
	t := *s
	d, x := &t.nodes[n], &t.calls[c]
	a := &d.of[c]
	recovering := m.see(&t, n)
	m.take(&t, d, a)
	if x.phase != asks || x.again || a.given {
		if t != *s {
			emit(t, "", "what call %d gives to node %d runs late", c, n)
		}
		return
	}
	a.given = true
	m.answered(&t, c, n, recovering)
	emit(t, "", "what call %d gives to node %d runs", c, n)
}

// proves says whether enough nodes hold the result of a call.
func (m *latchModel) proves(s *latchState, c int, kept bool) bool {
	x, holders := &s.calls[c], 0
	for n := range s.nodes {
		a := &s.nodes[n].of[c]
		if kept && !a.kept {
			continue
		}
		if m.calls[c].kind == deletes && a.deleted || m.calls[c].kind != deletes && m.holds(&x.target, a) {
			holders++
		}
	}
	if m.calls[c].kind == deletes {
		return holders >= latchNeed
	}
	as := m.answers(s, c, kept)
	v := m.view(as[:], m.calls[c].id)
	if !m.has(resultsAreOnAMajority) {
		holders = latchNeed
	}
	return x.aims && m.known(&v, as[:]) && holders >= latchNeed
}

// ask asks a node once more, for a call that was not prompt.
func (m *latchModel) ask(s *latchState, c, n int, emit emit[latchState]) {
	a := &s.nodes[n].of[c]
	if x := &s.calls[c]; x.phase != asks || !x.again || !a.told || a.kept {
		return
	}
	t := *s
	m.see(&t, n)
	d := &t.nodes[n]
	if d.lost == a.lost && (d.is.generation > a.known.generation || d.is.generation == a.known.generation && d.is.set == a.known.set) {
		d.of[c].kept = true
		emit(t, "", "node %d has kept its memory since call %d", n, c)
	}
}

// end ends a call. Its requests may still run.
func (s *latchState) end(c int) {
	for n := range s.nodes {
		a := &s.nodes[n].of[c]
		*a = latchOf{gives: a.gives, gift: a.gift, whole: a.whole}
	}
	s.calls[c] = openCall{phase: over, token: s.calls[c].token, since: s.calls[c].since}
}

// tell lets a call return, and checks what it returns.
func (m *latchModel) tell(s *latchState, c int, emit emit[latchState]) {
	x := s.calls[c]
	if x.phase != asks || !m.proves(s, c, x.again) {
		return
	}
	t := *s
	if s.now > x.at && !x.again && m.has(slowRoundsAreConfirmed) {
		t.calls[c].again = true
		emit(t, "", "call %d asks again", c)
		return
	}
	t.end(c)
	call, v := m.calls[c], x.target
	agrees := x.epoch == s.epoch && s.epoch != 1
	switch {
	case call.kind == deletes:
		t.epoch = 2
	case v.set && agrees:
		t.wasSet = 1
		t.confirmed |= v.ids
	}
	t.returned |= call.id
	broken := ""
	if call.kind != deletes {
		broken = m.judge(s, &v, x.epoch, x.must, x.mustSet)
	}
	emit(t, broken, "call %d returns: set %v, ids %02b", c, v.set, v.ids)
}

var latches = []latchConfig{
	{
		name: "a latch across a loss", calls: []latchCall{{counts, 1}, {kind: reads}},
		count: 2, set: 0b111, recovery: 2, losses: 1, horizon: 2, open: 2, disk: true,
		rules: []rule{forgetfulNodesAreNoWitness, slowRoundsAreConfirmed, restoredLater, resultsAreOnAMajority},
	},
	{
		name: "a latch across two losses", calls: []latchCall{{kind: reads}, {kind: reads}, {counts, 1}, {kind: reads}},
		count: 2, set: 0b111, recovery: 3, losses: 2, horizon: 2, open: 1,
		rules: []rule{restoredForOneLoss},
	},
	{
		name: "a latch that two of three nodes know", calls: []latchCall{{counts, 1}, {kind: reads}},
		count: 2, set: 0b011, recovery: 1, losses: 1, horizon: 2, open: 1, exception: true,
	},
	{
		name: "a latch that is done", calls: []latchCall{{counts, 1}, {kind: reads}},
		count: 1, set: 0b111, recovery: 1, losses: 2, horizon: 2, open: 1, disk: true,
	},
	{
		name: "a latch that is set", calls: []latchCall{{kind: sets}, {counts, 1}},
		count: 1, recovery: 1, losses: 1, horizon: 2, open: 2, exception: true,
	},
	{
		name: "a latch that is set again", calls: []latchCall{{counts, 1}, {kind: sets}},
		count: 2, set: 0b011, recovery: 2, losses: 1, horizon: 2, open: 1, exception: true,
		rules: []rule{recoveringNodesSetNothing},
	},
	{
		name: "a latch that is deleted", calls: []latchCall{{counts, 1}, {kind: deletes}, {kind: sets}},
		count: 1, set: 0b111, recovery: 3, skew: 1, horizon: 2, open: 1,
		rules: []rule{lateCountDownsAreRefused, oldStateIsVoid},
	},
	{
		name: "a latch that is deleted, and the clock of a node is slow", calls: []latchCall{{counts, 1}, {kind: reads}, {kind: reads}},
		count: 2, recovery: 3, skew: 1, slow: 2, losses: 1, horizon: 2, open: 1,
		rules: []rule{stateAheadIsRefused},
	},
	{
		name: "a latch that is deleted, and a loss", calls: []latchCall{{kind: deletes}, {kind: sets}, {counts, 1}},
		count: 1, set: 0b111, recovery: 1, losses: 1, horizon: 2, open: 1, exception: true,
	},
}

// TestForgottenLatchCountsAsNotSet shows the exception. One of three nodes misses the Set, another one forgets it and recovers,
// and the third does not answer. README.md has the mends that were tried.
func TestForgottenLatchCountsAsNotSet(t *testing.T) {
	for _, c := range latches {
		if c.exception {
			c.exception = false
			require.NotEmpty(t, explore(&latchModel{latchConfig: c}).broken, c.name)
		}
	}
}
