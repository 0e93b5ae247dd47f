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

// latchRound asks all nodes about a latch, and gives those that lack something what the others
// have, once each. It reads and gives ids in pieces of a bounded size, the next piece after the answer
// to the last: no operation keeps a node from others for long. Answers that come after it was decided are folded in all the same.
type latchRound struct {
	call *latchCall
	kind node.Kind
	// token is that of the operation, ask what it asks of the nodes. inboxes are the nodes on
	// which the client is to be told.
	token   uint64
	ask     node.LatchOp
	inboxes uint64
	// known are ids that count whatever the nodes say, if this is the generation they are of,
	// or if it is any.
	known         []string
	generation    uint64
	anyGeneration bool
	// enough reports whether a view decides the round before all have answered.
	enough  func(v *quorum.LatchView) bool
	decided chan struct{}

	mu      sync.Mutex
	answers []quorum.LatchAnswer
	// recoveryEnds are the ends of the nodes' recoveries as they stand in their markers, errs why
	// there is no answer, granted those that did what they were asked, mended those that were
	// given what they lacked.
	recoveryEnds      []int64
	errs              []error
	granted, repaired uint64
	// began is when the round did, as a token by the clock of the client.
	began uint64
	// lost are the ends of the recoveries of nodes that may have lost their memory during the round.
	// Each such loss has all ids read again, and readings counts these readings. readBefore is, for each
	// node, the number of the latest reading for which it told its ids. lostBefore is the number of the
	// reading that began because the node itself had lost its memory.
	lost                   []int64
	readings               int
	readBefore, lostBefore []int
	// begun are the operations that begin to read a node's ids, or go on with that.
	begun map[*node.LatchOp]latchReading
	// born tells one memory of a node from the next. told are the last answers of the nodes, without
	// ids. goals are the numbers of ids that a reading has to reach. gifts are the ids that nodes are
	// being given.
	born  []int64
	told  []quorum.LatchAnswer
	goals []int
	gifts []latchGift
	// repairTarget is what has to be on enough nodes before it may be told: all that there was when
	// enough had answered. What others do meanwhile is not waited for.
	repairTarget *quorum.LatchView
	// unanswered counts the operations that are to be answered.
	unanswered int
	done       bool
	// bySizes is set once sizes have decided it: ids need not be read any more.
	bySizes bool
	// outcome is the view that decided the round: what comes later is of no account to who asked.
	outcome quorum.LatchView
}

// latchReading says for which reading an operation lists ids.
type latchReading struct {
	// number is that of the reading. first is set for the operation that begins it on a node.
	number int
	first  bool
}

// latchGift is a set of ids that a node is being given, in pieces.
type latchGift struct {
	ask node.LatchOp
	// all are the ids, sent how many of them the node was sent.
	all  []string
	sent int
	// busy is set until the node has answered the last operation: no other gift begins before.
	busy bool
}

// next is the operation that gives the next of them. Only the last one says that these were all.
func (g *latchGift) next() *node.LatchOp {
	ask := g.ask
	ask.IDs = g.all[g.sent:min(g.sent+latchChunk, len(g.all))]
	if g.sent += len(ask.IDs); g.sent < len(g.all) {
		ask.Whole = 0
	}
	return &ask
}

// latchChunk is how many ids one operation gives to a node. Tests have it smaller.
var latchChunk = node.MaxListed

// init makes room for the answers of the nodes.
func (r *latchRound) init(nodes int) {
	r.answers, r.told = make([]quorum.LatchAnswer, nodes), make([]quorum.LatchAnswer, nodes)
	r.recoveryEnds, r.born, r.errs = make([]int64, nodes), make([]int64, nodes), make([]error, nodes)
	r.goals, r.gifts = make([]int, nodes), make([]latchGift, nodes)
	r.lost, r.readBefore, r.lostBefore = make([]int64, nodes), make([]int, nodes), make([]int, nodes)
	r.begun = make(map[*node.LatchOp]latchReading)
	r.decided = make(chan struct{})
}

// send asks all nodes.
func (r *latchRound) send() {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.call.latch.client.nodes.Len()
	r.init(n)
	r.began = uint64(max(r.call.latch.client.tokenClock.now(), 0))
	for i := range n {
		if r.ask.List {
			r.begin(i)
			continue
		}
		ask, token := r.ask, r.token
		if ask.First || len(ask.IDs) > 0 {
			token = r.call.operationToken(token)
		}
		r.submit(i, &ask, token)
	}
	r.decideIfDone(true)
}

// begin has a node list its ids, from the first on that the call has not read. The mutex is held.
func (r *latchRound) begin(i int) {
	ask := r.ask
	ask.From = r.call.copyOf(i).next()
	r.begun[&ask] = latchReading{r.readings, true}
	r.submit(i, &ask, r.token)
}

// submit sends one operation, and reports whether an answer will come. The mutex is held.
func (r *latchRound) submit(i int, ask *node.LatchOp, token uint64) bool {
	l := r.call.latch
	r.call.mu.Lock()
	defer r.call.mu.Unlock()
	if r.inboxes&(1<<i) != 0 && !r.call.left {
		ask.Inbox, ask.Keep = l.client.id, l.client.entryTTL()
	}
	c := &dispatch.Call{To: r, Op: &node.Op{
		Kind: r.kind, Names: l.name[:], TTL: l.ttl, Token: token, Limits: l.client.cfg.limits(), Latch: ask,
	}}
	if err := l.client.nodes.Submit(i, c); err != nil {
		r.errs[i] = err
		return false
	}
	r.unanswered++
	return true
}

// answer is what one node says.
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

// recordReply keeps an answer, and reports whether it is one: not if more has to be read from the node, or
// given to it. A node that fails a later operation has still said what it has.
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
			if len(sent) < len(gift.all) && r.submit(i, gift.next(), 0) {
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

// read takes the ids that a node has listed. It asks for more until the call has read as many ids as
// the node had when the reading began. These are all ids that the node had at some moment of the
// round, as ids keep their order.
func (r *latchRound) read(c *dispatch.Call, s *node.LatchState) (ids []string, more bool) {
	i, ask := c.Node(), *c.Op.Latch
	one := r.call.copyOf(i)
	read := one.add(ask.From, s)
	reading := r.begun[c.Op.Latch]
	switch {
	case read < ask.From: // it has another memory
		r.goals[i] = s.Size
	case reading.first:
		r.goals[i] = max(r.goals[i], s.Size)
	}
	ask.From, ask.Inbox = read, ""
	if read < r.goals[i] && !r.bySizes {
		r.begun[&ask] = latchReading{number: reading.number}
		if r.submit(i, &ask, r.token) {
			return nil, true
		}
	}
	return one.all(), false
}

// forgot reports whether enough witnesses have been read since a node lost its memory. Only then do
// they have all that the node may have forgotten: an earlier answer of a witness may lack a count-down
// that came to both later. If the loss may have happened during the round, all ids are read again.
// The mutex is held.
func (r *latchRound) forgot(i int, v *quorum.LatchView) (known bool) {
	if r.answers[i].ForgotBefore(r.began, r.skew()) {
		return true
	}
	if r.lost[i] != r.recoveryEnds[i] {
		r.readings++
		r.lost[i], r.lostBefore[i] = r.recoveryEnds[i], r.readings
		for j := range r.answers {
			r.begin(j)
		}
	}
	witnesses := 0
	for j, a := range r.answers {
		if v.Member(a, r.skew()) && r.readBefore[j] >= r.lostBefore[i] {
			witnesses++
		}
	}
	return witnesses >= r.call.need
}

// view is what the answers come to so far, or the target once enough nodes have that, but not yet
// what came to it since. The mutex is held.
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

// sizes is the view of the answers so far, without ids. The mutex is held.
func (r *latchRound) sizes() quorum.LatchView {
	return quorum.ViewLatch(r.told, r.call.need, nil, r.skew())
}

// skew is how far clocks may be apart, in the unit of tokens.
func (r *latchRound) skew() uint64 {
	return uint64(r.call.latch.client.cfg.limits().MaxClockSkew.Microseconds())
}

// merged is all that the answers come to so far. The mutex is held.
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

// repair gives nodes what others have, and they lack, once enough have said what there is. One
// that lost its memory is whole again with that, if all ids are known. Each is given it once for
// a target: then it has that, and what others do meanwhile could be run after for ever.
//
// One that lost its memory is whole only with all that the others knew after the loss, see forgot. The
// mutex is held.
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
		r.gifts[i].busy = r.submit(i, r.gifts[i].next(), 0)
	}
}

// decideIfDone ends the round once it is decided, or no answer is outstanding. The sizes may decide a round
// that is still reading ids: if enough nodes have enough ids, nobody needs to know which ones. The
// mutex is held.
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

// anyForgot reports whether a node has answered that is no witness, as it has lost its memory.
// The mutex is held.
func (r *latchRound) anyForgot(v *quorum.LatchView) bool {
	return slices.ContainsFunc(r.told, func(a quorum.LatchAnswer) bool { return a.Told && !v.Member(a, r.skew()) })
}

// glance sums up the sizes. The mutex is held.
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
var errForgotten = errors.New("it has lost its memory since the latch was set, and was not given it back yet")

// noQuorum says why too few nodes agreed. The mutex is held.
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
