package quorumlock

import (
	"errors"
	"math/bits"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// latchRound asks all nodes about a latch, and repairs each node once with the ids of the others.
// It reads and gives ids in pieces of a bounded size, one after another, so that no operation
// occupies a node for long. Answers after the decision still count for repairs.
type latchRound struct {
	call *latchCall
	kind node.Kind
	// token is the token of the operation, and ask its arguments. inboxes are the nodes that should
	// report later changes to the client.
	token   uint64
	ask     node.LatchOp
	inboxes uint64
	// known are ids that count even if no node has them. They count in the given generation, or in
	// any if anyGeneration is set.
	known         []string
	generation    uint64
	anyGeneration bool
	// enough reports whether a view decides the round before all nodes have answered.
	enough  func(v *quorum.LatchView) bool
	decided chan struct{}

	mu      sync.Mutex
	answers []quorum.LatchAnswer
	// recoveryEnds is the end of each node's recovery, by its marker. errs is why a node has no
	// answer. granted are the nodes that did as asked. repaired are the nodes that were given their
	// missing ids.
	recoveryEnds      []int64
	errs              []error
	granted, repaired uint64
	// began is when the round began, as a token by the client's clock.
	began uint64
	// lost has the recovery ends of nodes that may have lost their memory during the round. Each
	// such loss makes the round read all ids again, and readings counts that. readBefore is, for
	// each node, the latest reading in which it listed its ids. lostBefore is the reading that its
	// own loss started.
	lost                   []int64
	readings               int
	readBefore, lostBefore []int
	// begun are the operations that start or continue to list a node's ids.
	begun map[*node.LatchOp]latchReading
	// born identifies one memory of each node. told is the last answer of each node, without ids.
	// goals is how many ids a reading has to reach on each node. gifts are the ids that each node
	// is being given.
	born  []int64
	told  []quorum.LatchAnswer
	goals []int
	gifts []latchGift
	// repairTarget must be on enough nodes before its ids may be told: everything that was known
	// when enough nodes had answered. Later count-downs do not delay it.
	repairTarget *quorum.LatchView
	// unanswered counts the operations in flight.
	unanswered int
	done       bool
	// bySizes is set once sizes have decided the round: no more ids are read.
	bySizes bool
	// outcome is the view that decided the round; later answers do not change it.
	outcome quorum.LatchView
}

// latchReading says to which reading an operation belongs.
type latchReading struct {
	// number is the number of the reading. first is set for its first operation on a node.
	number int
	first  bool
}

// latchGift is a set of ids that a node is being given, in pieces.
type latchGift struct {
	ask node.LatchOp
	// all are the ids, and sent is how many of them were sent.
	all  []string
	sent int
	// busy is set until the node has answered the last piece: no other gift begins before.
	busy bool
}

// next returns the operation that gives the next piece. Only the last piece says that the node is
// whole.
func (g *latchGift) next() *node.LatchOp {
	ask := g.ask
	ask.IDs = g.all[g.sent:min(g.sent+latchChunk, len(g.all))]
	if g.sent += len(ask.IDs); g.sent < len(g.all) {
		ask.Whole = 0
	}
	return &ask
}

// latchChunk is how many ids one operation gives to a node. Tests reduce it.
var latchChunk = node.MaxListed

func (r *latchRound) init(nodes int) {
	r.answers, r.told = make([]quorum.LatchAnswer, nodes), make([]quorum.LatchAnswer, nodes)
	r.recoveryEnds, r.born, r.errs = make([]int64, nodes), make([]int64, nodes), make([]error, nodes)
	r.goals, r.gifts = make([]int, nodes), make([]latchGift, nodes)
	r.lost, r.readBefore, r.lostBefore = make([]int64, nodes), make([]int, nodes), make([]int, nodes)
	r.begun = make(map[*node.LatchOp]latchReading)
	r.decided = make(chan struct{})
}

func (r *latchRound) send() {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.call.latch.client.nodes
	r.init(nodes.Len())
	r.began = uint64(max(r.call.latch.client.tokenClock.now(), 0))
	if r.ask.List {
		r.beginReading()
	} else {
		token := r.token
		if r.ask.First || len(r.ask.IDs) > 0 {
			token = r.call.operationToken(token)
		}
		r.submit(nodes.All(), token, func(int) *node.LatchOp { ask := r.ask; return &ask })
	}
	r.decideIfDone(true)
}

// beginReading asks each node to list its ids, from the first that the call has not read.
// Requires r.mu.
func (r *latchRound) beginReading() {
	r.submit(r.call.latch.client.nodes.All(), r.token, func(i int) *node.LatchOp {
		ask := r.ask
		ask.From = r.call.copyOf(i).next()
		r.begun[&ask] = latchReading{r.readings, true}
		return &ask
	})
}

// submitTo sends one operation to one node, and reports whether an answer will come. Requires r.mu.
func (r *latchRound) submitTo(i int, ask *node.LatchOp, token uint64) bool {
	return r.submit(quorum.Set(0).With(i), token, func(int) *node.LatchOp { return ask }).Has(i)
}

// submit sends an operation to each node of a set, and returns the nodes from which an answer will
// come. Requires r.mu.
func (r *latchRound) submit(to quorum.Set, token uint64, ask func(i int) *node.LatchOp) quorum.Set {
	l := r.call.latch
	r.call.mu.Lock()
	defer r.call.mu.Unlock()
	calls := dispatch.NewCalls(l.client.nodes.Len(), node.Op{
		Kind: r.kind, Names: l.name[:], TTL: l.ttl, Token: token, Limits: l.client.cfg.limits(),
	})
	for i := range to.All() {
		op := calls.Op
		op.Latch = ask(i)
		if r.inboxes&(1<<i) != 0 && !r.call.left {
			op.Latch.Inbox, op.Latch.Keep = l.client.id, l.client.entryTTL()
		}
		calls.To(i).To, calls.To(i).Op = r, &op
	}
	asked := l.client.nodes.Send(calls, to, func(i int, err error) bool {
		r.errs[i] = err
		return true
	})
	r.unanswered += asked.Len()
	return asked
}

// Answer implements dispatch.Receiver.
func (r *latchRound) Answer(c *dispatch.Call, reply *node.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered--
	news := r.recordReply(c, reply)
	if news {
		r.repair()
	}
	r.decideIfDone(news)
}

// recordReply records an answer, and reports whether it is complete. It is not if more ids have to
// be read from the node, or given to it. If a later operation on a node fails, its earlier answer
// stays.
func (r *latchRound) recordReply(c *dispatch.Call, reply *node.Reply) (news bool) {
	i, s := c.Node(), reply.Latch
	if reply.Err != nil || s == nil {
		r.errs[i] = reply.Err
		if c.Op.Latch != nil && c.Op.Latch.Exact {
			r.gifts[i].busy = false
		}
		return true
	}
	l := r.call.latch
	l.client.tokenClock.observe(max(s.Generation, s.Since, s.Last), l.name[0])
	a := quorum.LatchAnswer{
		Told: true, Generation: s.Generation, Count: s.Count, Since: s.Since,
		Refilled: s.Whole, Recovering: reply.Recovering > 0, Size: s.Size,
	}
	if length := l.client.cfg.limits().Recovery().Microseconds(); s.Until > length {
		a.Memory = uint64(s.Until - length)
	}
	if before := &r.answers[i]; before.Generation == a.Generation && r.recoveryEnds[i] == s.Until && r.born[i] == s.Born {
		a.IDs = before.IDs
	}
	r.recoveryEnds[i], r.born[i], r.errs[i], r.told[i] = s.Until, s.Born, nil, a
	r.told[i].IDs = nil
	granted := reply.Outcome == node.Granted
	if granted {
		r.granted |= 1 << i
	}
	switch {
	case c.Op.Latch.List:
		read, more := r.read(c, s)
		if more {
			return false
		}
		a.IDs = read
		r.readBefore[i] = max(r.readBefore[i], r.begun[c.Op.Latch].number)
	case c.Op.Latch.Exact:
		gift := &r.gifts[i]
		if granted {
			sent := gift.all[:gift.sent]
			if len(sent) < len(gift.all) && r.submitTo(i, gift.next(), 0) {
				return false
			}
			a.IDs = quorum.UnionOfIDs(a.IDs, sent)
		}
		gift.busy = false
	case granted:
		a.IDs = quorum.UnionOfIDs(a.IDs, slices.Sorted(slices.Values(c.Op.Latch.IDs)))
	}
	r.answers[i] = a
	return true
}

// read takes the ids that a node has listed. It asks for more until the call has read as many ids
// as the node had when the reading began. Since ids keep their order, the node had all of them at
// one moment of the round.
func (r *latchRound) read(c *dispatch.Call, s *node.LatchState) (ids []string, more bool) {
	i, ask := c.Node(), *c.Op.Latch
	one := r.call.copyOf(i)
	read := one.add(ask.From, s)
	reading := r.begun[c.Op.Latch]
	switch {
	case read < ask.From: // the node has another memory
		r.goals[i] = s.Size
	case reading.first:
		r.goals[i] = max(r.goals[i], s.Size)
	}
	ask.From, ask.Inbox = read, ""
	if read < r.goals[i] && !r.bySizes {
		r.begun[&ask] = latchReading{number: reading.number}
		if r.submitTo(i, &ask, r.token) {
			return nil, true
		}
	}
	return one.all(), false
}

// forgot reports whether enough witnesses have been read since a node lost its memory. Only then do
// they have everything that the node may have forgotten. An earlier answer of a witness may lack a
// count-down that reached both later. If the loss may have happened during the round, all ids are
// read again. Requires r.mu.
func (r *latchRound) forgot(i int, v *quorum.LatchView) (known bool) {
	if r.answers[i].ForgotBefore(r.began, r.skew()) {
		return true
	}
	if r.lost[i] != r.recoveryEnds[i] {
		r.readings++
		r.lost[i], r.lostBefore[i] = r.recoveryEnds[i], r.readings
		r.beginReading()
	}
	witnesses := 0
	for j, a := range r.answers {
		if v.Member(a, r.skew()) && r.readBefore[j] >= r.lostBefore[i] {
			witnesses++
		}
	}
	return witnesses >= r.call.need
}

// view is the combined answers, or the repair target once enough nodes have that but not yet what
// was added since. Requires r.mu.
func (r *latchRound) view() quorum.LatchView {
	v := r.merged()
	if t := r.repairTarget; t != nil && v.Known && v.Holders < r.call.need && t.Alike(&v) {
		if holders := t.HeldBy(r.answers); holders >= r.call.need {
			full := v.Full
			v, v.Holders, v.Full = *t, holders, full
		}
	}
	return v
}

// sizes is the combined answers without ids. Requires r.mu.
func (r *latchRound) sizes() quorum.LatchView {
	return quorum.ViewLatch(r.told, r.call.need, nil, r.skew())
}

// skew is how far clocks may differ, in the unit of tokens.
func (r *latchRound) skew() uint64 {
	return uint64(r.call.latch.client.cfg.limits().MaxClockSkew.Microseconds())
}

// merged is the combined answers. Requires r.mu.
func (r *latchRound) merged() quorum.LatchView {
	var known []string
	if r.anyGeneration || r.generation == r.latest() {
		known = r.known
	}
	return quorum.ViewLatch(r.answers, r.call.need, known, r.skew())
}

func (r *latchRound) latest() (generation uint64) {
	for _, a := range r.answers {
		generation = max(generation, a.Generation)
	}
	return generation
}

// repair gives each node its missing ids, once enough nodes have answered. A node gets one repair
// for each target; otherwise the repairs would chase concurrent count-downs for ever.
//
// A node that lost its memory counts again after a repair. The repair must include everything that
// the others knew after the loss; see forgot. Requires r.mu.
func (r *latchRound) repair() {
	v := r.merged()
	if r.kind != node.Latch || !v.Known || v.Disputed {
		return
	}
	if r.repairTarget == nil || !r.repairTarget.Alike(&v) {
		r.repairTarget, r.repaired = &v, 0
	}
	for i, a := range r.answers {
		if !a.Told || r.repaired&(1<<i) != 0 || r.gifts[i].busy {
			continue
		}
		refill := r.ask.List && v.Count > 0 && !v.Member(a, r.skew())
		if refill && !r.forgot(i, &v) || v.Holds(a) && !refill {
			continue
		}
		r.repaired |= 1 << i
		gift := latchGift{ask: node.LatchOp{Exact: true, Generation: v.Generation, Void: true}}
		if v.Count > 0 {
			gift.ask.Count, gift.ask.Since, gift.ask.Chosen, gift.all = v.Count, v.Since, v.Chosen, v.Missing(a)
		}
		if refill {
			gift.ask.Whole = r.recoveryEnds[i]
		}
		r.gifts[i] = gift
		r.gifts[i].busy = r.submitTo(i, r.gifts[i].next(), 0)
	}
}

// decideIfDone ends the round once it is decided, or no operation is in flight. The sizes may
// decide a round that is still reading ids: if enough nodes have enough ids, the ids do not matter.
// Requires r.mu.
func (r *latchRound) decideIfDone(news bool) {
	if r.done {
		return
	}
	var v quorum.LatchView
	if news || r.unanswered == 0 {
		v = r.view()
	}
	if r.ask.List && r.unanswered > 0 && (!v.Known || !r.enough(&v)) {
		if s := r.sizes(); s.Known && s.Full >= r.call.need && !r.anyForgot(&s) {
			v, r.bySizes = s, true
		}
	}
	if r.unanswered == 0 || v.Known && r.enough(&v) || r.kind == node.Unlatch && r.enough(&v) {
		r.done, r.outcome = true, v
		close(r.decided)
	}
}

// anyForgot reports whether an answer is of a node that has lost its memory. Requires r.mu.
func (r *latchRound) anyForgot(v *quorum.LatchView) bool {
	return slices.ContainsFunc(r.told, func(a quorum.LatchAnswer) bool { return a.Told && !v.Member(a, r.skew()) })
}

// glance sums up the sizes. Requires r.mu.
func (r *latchRound) glance(v *quorum.LatchView) latchGlance {
	g := latchGlance{
		count: v.Count, most: v.Most, mayBeDone: v.MayBeDone(r.told, r.call.need, r.skew()), forgetful: r.anyForgot(v),
	}
	for i, a := range r.told {
		g.sum += a.Size
		g.read += len(r.answers[i].IDs)
	}
	return g
}

// errForgotten is why the answer of a node did not count.
var errForgotten = errors.New("it has lost its memory since the latch was set, and has not got it back yet")

// noQuorum returns the error that says why too few nodes agreed. Requires r.mu.
func (r *latchRound) noQuorum() *NoQuorumError {
	l, v, skew := r.call.latch, r.view(), r.skew()
	e := &NoQuorumError{Op: r.call.op, Names: l.name[:], Need: r.call.need, Total: len(r.answers)}
	for i, a := range r.answers {
		err := r.errs[i]
		switch {
		case err != nil:
		case !a.Told:
			e.Pending++
			continue
		case !v.Member(a, skew):
			err = errForgotten
		default:
			e.Agreed++
			continue
		}
		e.Nodes = append(e.Nodes, NodeError{Node: l.client.nodes.Name(i), Err: err})
	}
	if r.kind == node.Unlatch {
		e.Agreed = bits.OnesCount64(r.granted)
	}
	return e
}
