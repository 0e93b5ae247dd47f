package decision

import (
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The tests in this file explore the decisions of Proposal and Claims for two owners on three
// nodes. Requests run and answers arrive in every order, may be lost or doubled, and nodes may lose
// their memory. In each reachable state the tests check that
//
//   - at most one lease is valid (invariant 1),
//   - tokens grow in the order in which acquisitions are won (invariant 5),
//   - an owner that has ended, and has nothing in flight, is on no node (invariant 3).
//
// The nodes and the network are models; all decisions are the library's. Time advances in ticks of
// half a TTL.

// deep makes the tests explore further, for minutes.
var deep = flag.Bool("deep", false, "explore more states")

const (
	modelNodes = 3
	modelNeed  = 2
	modelTick  = 5 * time.Second
	modelTTL   = 2 * modelTick
	ttlTicks   = 2
	// recoveryTicks is the length of a recovery: the longest TTL. All clocks of the model agree.
	recoveryTicks = ttlTicks
)

// scope bounds an exploration.
type scope struct {
	name string
	// ticks is how often time advances, faults how many losses, duplicates and cancelled calls
	// there are, and forgets how many memory losses.
	ticks, faults, forgets int8
	// raises is how often an owner of another name, which shares the place of this one, raises the
	// fence of a node.
	raises int8
	// renews lets owner A renew its lease once.
	renews bool
	// sameClock lets both owners propose the same token at the same tick.
	sameClock bool
	// holder starts with a lease of A that nodes 0 and 1 have granted; node 2 was not reached. A
	// keeps the lease until its end.
	holder bool
	// begun starts with an acquisition of A in flight to nodes 0 and 1 only.
	begun bool
	// prompt delivers each answer as soon as its request has run.
	prompt bool
	states int // the least number of states reached: the exploration is not empty
}

// request is an operation in flight to a node.
type request struct {
	kind  requestKind
	token uint64
	sent  int8
}

type requestKind uint8

const (
	acquires requestKind = iota + 1
	renews
	releases
)

// answer is an answer in flight to an owner.
type answer struct {
	request
	vote       Vote
	known      uint64
	fence      uint64
	recovering bool
}

// modelNode is the data of a node. Owners are numbered from 1; 0 is none.
type modelNode struct {
	owner, expiry, recoverUntil int8
	fence                       uint64
}

// link connects an owner and a node. Operations run in the order in which they were sent.
type link struct {
	requests []request
	answers  []answer
}

type phase uint8

const (
	idle phase = iota
	acquiring
	held
	ended
)

// modelOwner is one owner: its acquisition, and the lease that it becomes.
type modelOwner struct {
	phase      phase
	renewed    bool
	proposal   Proposal
	claims     Claims
	validUntil time.Duration
	links      [modelNodes]link
}

// world is one state.
type world struct {
	now, faults, forgets, raises int8

	nodes     [modelNodes]modelNode
	owners    [2]modelOwner
	lastToken uint64
	// steps is how the state was reached, for a failure.
	steps *step
}

type step struct {
	what   string
	before *step
}

func (s *step) String() string {
	var all []string
	for ; s != nil; s = s.before {
		all = append(all, s.what)
	}
	slices.Reverse(all)
	return fmt.Sprintf("%q", all)
}

func (w *world) time() time.Duration { return time.Duration(w.now) * modelTick }

// clone copies a state. what describes how the copy will differ.
func (w *world) clone(format string, args ...any) *world {
	c := *w
	c.steps = &step{fmt.Sprintf(format, args...), w.steps}
	for o := range c.owners {
		owner := &c.owners[o]
		owner.proposal.fences = slices.Clone(owner.proposal.fences)
		for i := range owner.links {
			owner.links[i].requests = slices.Clone(owner.links[i].requests)
			owner.links[i].answers = slices.Clone(owner.links[i].answers)
		}
	}
	return &c
}

// key is equal for states with the same possible futures. Nodes are interchangeable, so their order
// does not count.
func (w *world) key() string {
	head := []byte{byte(w.now), byte(w.faults), byte(w.forgets), byte(w.raises)}
	head = binary.AppendUvarint(head, w.lastToken)
	for o := range w.owners {
		p := &w.owners[o]
		head = append(head, byte(p.phase), flagOf(p.renewed), flagOf(p.proposal.won), flagOf(p.proposal.renewed), p.proposal.rounds)
		head = binary.AppendUvarint(head, p.proposal.Token)
		head = binary.AppendUvarint(head, p.proposal.End)
		head = binary.AppendVarint(head, int64(p.validUntil))
	}
	columns := make([]string, modelNodes)
	for i := range columns {
		n := &w.nodes[i]
		b := []byte{byte(n.owner), byte(n.expiry), byte(n.recoverUntil)}
		b = binary.AppendUvarint(b, n.fence)
		for o := range w.owners {
			p := &w.owners[o]
			if p.phase != idle {
				b = append(b, byte(p.proposal.votes.Vote(i)), byte(p.proposal.taken.Vote(i)), flagOf(p.proposal.Exposed.Has(i)), flagOf(p.proposal.Unanswered.Has(i)), flagOf(p.proposal.grown.Has(i)))
				b = binary.AppendUvarint(b, p.proposal.fence(i))
				b = binary.AppendVarint(b, int64(p.claims.Expiry(i)))
			}
			b = append(b, byte(len(p.links[i].requests)), byte(len(p.links[i].answers)))
			for _, r := range p.links[i].requests {
				b = binary.AppendUvarint(append(b, byte(r.kind), byte(r.sent)), r.token)
			}
			for _, a := range p.links[i].answers {
				b = append(b, byte(a.kind), byte(a.sent), byte(a.vote), flagOf(a.recovering))
				b = binary.AppendUvarint(b, a.token)
				b = binary.AppendUvarint(b, a.known)
				b = binary.AppendUvarint(b, a.fence)
			}
		}
		columns[i] = string(b)
	}
	slices.Sort(columns)
	for _, column := range columns {
		head = append(head, column...)
		head = append(head, 0xff)
	}
	return string(head)
}

func flagOf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// check returns an error if a state violates an invariant.
func (w *world) check() error {
	valid := 0
	for o := range w.owners {
		p := &w.owners[o]
		if p.phase == held && w.time() < p.validUntil {
			valid++
		}
		if p.phase == ended && p.quiet() && slices.ContainsFunc(w.nodes[:], func(n modelNode) bool { return int(n.owner) == o+1 }) {
			return fmt.Errorf("owner %c has ended and is still on a node", 'A'+o)
		}
	}
	if valid > 1 {
		return fmt.Errorf("two leases are valid at %v", w.time())
	}
	return nil
}

// quiet reports whether nothing is in flight for the owner.
func (p *modelOwner) quiet() bool {
	return !slices.ContainsFunc(p.links[:], func(l link) bool { return len(l.requests)+len(l.answers) > 0 })
}

// explore visits every state within a scope, and returns how many there are.
func explore(t *testing.T, s scope) int {
	t.Helper()
	seen := make(map[string]struct{})
	start := &world{}
	switch {
	case s.holder:
		start = start.holding(t, s)
	case s.begun:
		start = start.beginning(t, s)
	}
	todo := []*world{start}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := w.key()
		if _, ok := seen[key]; ok {
			continue
		}
		seen[key] = struct{}{}
		require.NoError(t, w.check(), "%v", w.steps)
		w.successors(t, s, func(next *world) { todo = append(todo, next) })
	}
	return len(seen)
}

// holding is a state in which A holds the lock.
func (w *world) holding(t *testing.T, s scope) *world {
	t.Helper()
	c := w.beginning(t, s)
	for i := range modelNeed {
		c.run(0, i, false)
		c.hear(t, 0, i)
	}
	c.conclude(t, 0)
	return c
}

// beginning is a state in which A has asked nodes 0 and 1.
func (w *world) beginning(t *testing.T, s scope) *world {
	t.Helper()
	c := w.clone("A asks nodes 0 and 1")
	c.begin(0, s)
	c.timeOut(0, 2)
	c.hear(t, 0, 2)
	return c
}

// successors yields every state that can follow.
func (w *world) successors(t *testing.T, s scope, yield func(*world)) {
	if w.now < s.ticks {
		c := w.clone("tick")
		c.tick()
		yield(c)
	}
	if w.forgets < s.forgets {
		for i := range w.nodes {
			c := w.clone("node %d forgets", i)
			c.forgets++
			c.nodes[i] = modelNode{recoverUntil: c.now + recoveryTicks}
			yield(c)
		}
	}
	if w.raises < s.raises {
		for i := range w.nodes {
			c := w.clone("another name raises the fence of node %d", i)
			c.raises++
			c.nodes[i].fence = NextToken(c.clockToken(), c.nodes[i].fence)
			yield(c)
		}
	}
	for o := range w.owners {
		w.decisions(t, s, o, yield)
		for i := range w.nodes {
			w.deliveries(t, s, o, i, yield)
		}
	}
}

// decisions yields the possible next steps of an owner alone.
func (w *world) decisions(t *testing.T, s scope, o int, yield func(*world)) {
	p := &w.owners[o]
	name := string(rune('A' + o))
	switch {
	case p.phase == idle:
		c := w.clone("%s begins", name)
		c.begin(o, s)
		yield(c)
	case p.phase == acquiring && p.proposal.Decided():
		c := w.clone("%s concludes", name)
		c.conclude(t, o)
		yield(c)
	case p.phase == acquiring && w.faults < s.faults:
		c := w.clone("%s gives up", name)
		c.faults++
		c.rollBack(o)
		yield(c)
	case p.phase == held:
		if !s.holder {
			c := w.clone("%s releases", name)
			c.release(o)
			yield(c)
		}
		if s.renews && o == 0 && !p.renewed && w.time() < p.validUntil {
			c := w.clone("%s renews", name)
			c.renew(o)
			yield(c)
		}
	}
}

// deliveries yields the possible fates of the first request and the first answer between an owner
// and a node.
func (w *world) deliveries(t *testing.T, s scope, o, i int, yield func(*world)) {
	name, l := string(rune('A'+o)), &w.owners[o].links[i]
	if len(l.answers) > 0 {
		c := w.clone("%s hears node %d", name, i)
		c.hear(t, o, i)
		yield(c)
	}
	if len(l.requests) == 0 {
		return
	}
	c := w.clone("node %d runs %s", i, name)
	c.run(o, i, false)
	if s.prompt && len(c.owners[o].links[i].answers) > 0 {
		c.hear(t, o, i)
	}
	yield(c)
	// Undos are repeated until they succeed.
	if l.requests[0].kind == releases || w.faults >= s.faults {
		return
	}
	c = w.clone("request of %s to node %d is lost", name, i)
	c.faults++
	c.timeOut(o, i)
	yield(c)
	c = w.clone("answer of node %d to %s is lost", i, name)
	c.faults++
	c.run(o, i, true)
	yield(c)
	c = w.clone("node %d runs %s, and will again", i, name)
	c.faults++
	c.nodes[i].do(o, l.requests[0], c.now)
	yield(c)
}

func (w *world) tick() {
	w.now++
	for i := range w.nodes {
		if n := &w.nodes[i]; n.owner != 0 && n.expiry <= w.now {
			n.owner = 0
		}
	}
}

// clockToken is the token of a time by the model's clock.
func (w *world) clockToken() int64 { return int64(w.now)*1000 + 1 }

func (w *world) begin(o int, s scope) {
	p := &w.owners[o]
	token := NextToken(w.clockToken(), 0)
	if !s.sameClock {
		token += uint64(o)
	}
	p.phase, p.claims = acquiring, NewClaims(modelNodes)
	p.proposal = NewProposal(modelNodes, modelNeed, false, token, token)
	w.propose(o)
}

// propose sends the acquisition to the nodes that have not failed.
func (w *world) propose(o int) {
	p := &w.owners[o]
	for i := range p.proposal.Begin().All() {
		p.send(i, request{acquires, p.proposal.Token, w.now})
		p.proposal.Sent(i)
	}
}

func (p *modelOwner) send(i int, r request) {
	p.links[i].requests = append(p.links[i].requests, r)
}

// conclude wins the acquisition, or undoes it.
func (w *world) conclude(t *testing.T, o int) {
	t.Helper()
	p := &w.owners[o]
	if !p.proposal.Win(&p.claims, w.time()) {
		w.rollBack(o)
		return
	}
	p.phase, p.validUntil = held, p.claims.ValidUntil(modelNeed)
	require.Greater(t, p.proposal.Token, w.lastToken, "tokens grow: %v", w.steps)
	w.lastToken = p.proposal.Token
}

func (w *world) rollBack(o int) {
	p := &w.owners[o]
	p.phase = ended
	for i := range p.proposal.Exposed.All() {
		if !p.proposal.Unanswered.Has(i) {
			p.send(i, request{kind: releases})
		}
	}
}

func (w *world) release(o int) {
	p := &w.owners[o]
	p.phase = ended
	for i := range p.proposal.Exposed.All() {
		p.send(i, request{kind: releases})
	}
}

func (w *world) renew(o int) {
	p := &w.owners[o]
	p.renewed = true
	for i := range w.nodes {
		p.send(i, request{renews, p.proposal.Token, w.now})
		p.proposal.Renews(Set(0).With(i))
	}
}

// run runs the first request on a node. Its answer is then in flight, unless it is lost.
func (w *world) run(o, i int, lost bool) {
	l := &w.owners[o].links[i]
	r := l.requests[0]
	a := w.nodes[i].do(o, r, w.now)
	switch {
	case lost:
		w.timeOut(o, i)
	case r.kind == releases:
		l.requests = l.requests[1:]
	default:
		l.requests = l.requests[1:]
		l.answers = append(l.answers, a)
	}
}

// timeOut tells an owner that the outcome of a request is unknown.
func (w *world) timeOut(o, i int) {
	l := &w.owners[o].links[i]
	l.answers = append(l.answers, answer{request: l.requests[0], vote: Unknown})
	l.requests = l.requests[1:]
}

// do runs a request on a node, as the scripts of package node do.
func (n *modelNode) do(o int, r request, now int8) answer {
	owner := int8(o + 1)
	a := answer{request: r, recovering: n.recoverUntil > now}
	stale := r.token+ttlTicks*1000 <= uint64(now)*1000
	switch {
	case r.kind == releases:
		if n.owner == owner {
			n.owner = 0
		}
	case n.owner != 0 && n.owner != owner:
		a.vote, a.fence = Denied, n.fence
	case r.kind == acquires && (a.recovering || stale):
		a.vote = Unknown
	case r.kind == acquires:
		a.vote = Granted
		n.owner, n.expiry = owner, now+ttlTicks
		if n.fence < r.token {
			n.fence = r.token
		} else {
			a.known, a.fence = n.fence, n.fence
		}
	default:
		a.vote = Granted
		n.owner, n.expiry = owner, now+ttlTicks
		n.fence = max(n.fence, r.token)
	}
	return a
}

// hear handles the first answer of a node, as the coordinator does.
func (w *world) hear(t *testing.T, o, i int) {
	t.Helper()
	p := &w.owners[o]
	a := p.links[i].answers[0]
	p.links[i].answers = p.links[i].answers[1:]
	if a.kind == renews {
		if p.phase == held && w.time() < p.validUntil {
			w.note(p, i, a)
			p.validUntil = max(p.validUntil, p.claims.ValidUntil(modelNeed))
		}
		return
	}
	p.proposal.Answered(i)
	v := w.note(p, i, a)
	p.proposal.Answer(i, Answer{Vote: v, Proposed: a.token, Known: a.known, Fence: a.fence})
	switch {
	case p.phase == held:
		if w.time() < p.validUntil {
			p.validUntil = max(p.validUntil, p.claims.ValidUntil(modelNeed))
		}
	case p.phase == acquiring && p.proposal.NeedsHigherToken():
		p.proposal.Raise(func(above uint64) uint64 { return NextToken(w.clockToken(), above) })
		w.propose(o)
	case p.phase == ended && !p.proposal.won && p.proposal.Exposed.Has(i):
		p.send(i, request{kind: releases})
	}
}

// note records an answer in the claims, and returns the vote that it counts as.
func (w *world) note(p *modelOwner, i int, a answer) Vote {
	switch {
	case a.vote == Granted && !p.claims.Confirm(i, time.Duration(a.sent)*modelTick, modelTTL, w.time(), a.recovering):
		return Unknown
	case a.vote == Denied:
		p.claims.Drop(i)
	}
	return a.vote
}

func TestEveryOrderOfEvents(t *testing.T) {
	scopes := []scope{
		{name: "a loss", faults: 1, sameClock: true, states: 100_000},
		{name: "a tick", ticks: 1, sameClock: true, states: 100_000},
		{name: "names that share a place", prompt: true, sameClock: true, raises: 3, states: 50_000},
		{name: "late answers", begun: true, ticks: 2, states: 100_000},
		{name: "a holder and a node that forgets", holder: true, prompt: true, ticks: 2, forgets: 1, renews: true, states: 10_000},
	}
	if *deep {
		scopes = append(scopes,
			scope{name: "two ticks, prompt answers", prompt: true, ticks: 2, forgets: 1, states: 100_000},
			scope{name: "two ticks", ticks: 2, states: 500_000},
			scope{name: "a node forgets", ticks: 2, forgets: 1, states: 1_000_000},
			scope{name: "a holder, a node that forgets, late answers", holder: true, ticks: 2, forgets: 1, renews: true, states: 1_000_000},
		)
	}
	if testkit.Raced { // it sees one goroutine here, and makes that ten times slower
		scopes = scopes[:2]
	}
	for _, s := range scopes {
		t.Run(s.name, func(t *testing.T) {
			began := time.Now()
			n := explore(t, s)
			t.Logf("%d states in %v", n, time.Since(began))
			require.GreaterOrEqual(t, n, s.states)
		})
	}
}
