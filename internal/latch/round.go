package latch

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// round asks all nodes about a latch, and repairs each node once with the ids of the others.
// It reads and gives ids in pieces of a bounded size, one after another, so that no operation
// occupies a node for long. Answers after the decision still count for repairs.
type round struct {
	call *Call
	kind node.Kind
	// deletes is set for a deletion, which is decided by the nodes that confirm it.
	deletes bool
	// token is the token of the operation, and ask its arguments. inboxes are the nodes that should
	// report later changes to the client.
	token   uint64
	ask     node.LatchOp
	inboxes quorum.Set
	// known are ids that count even if no node has them. They count in the given generation, or in
	// any if anyGeneration is set.
	known         []string
	generation    uint64
	anyGeneration bool
	// enough reports whether a view decides the round before all nodes have answered.
	enough  func(v *quorum.LatchView) bool
	decided chan struct{}

	mu sync.Mutex
	// answers are the last answers of the nodes, and summaries are the same without ids.
	answers, summaries []quorum.LatchAnswer
	nodes              []nodeState
	// granted are the nodes that did as asked. repaired are the nodes that were given their missing
	// ids.
	granted, repaired quorum.Set
	// setAgain are the nodes that confirmed a deletion, and yet had the latch set right after it: its
	// generation had begun there before.
	setAgain quorum.Set
	// began is when the round began, as a token by the client's clock. sentAt is the same by its
	// monotonic clock.
	began  uint64
	sentAt time.Duration
	// readings counts how often the round has read all ids again, since a node may have lost its
	// memory during the round.
	readings int
	// begun are the operations that start or continue to list a node's ids.
	begun map[*node.LatchOp]reading
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
	// confirmation is set if the round took too long, and is confirmed.
	confirmation *confirmation
}

// nodeState is the state of one node in a round, apart from its answers.
type nodeState struct {
	// err is why the node has no answer.
	err error
	// recoveryEnd is the end of the node's recovery, by its marker. With born, it identifies one
	// memory of the node.
	recoveryEnd, born int64
	// refillable is when the node's last loss will be refillAfter ago, by the clock of the client.
	refillable time.Duration
	// lost is the recovery end of a loss that may have happened during the round. That loss started
	// the reading lostBefore. readBefore is the latest reading in which the node listed its ids.
	lost                   int64
	lostBefore, readBefore int
	// goal is how many ids a reading has to reach. refill are the ids that the node is being given.
	goal   int
	refill refill
}

// reading says to which reading an operation belongs.
type reading struct {
	// number is the number of the reading. first is set for its first operation on a node.
	number int
	first  bool
}

// refill is a set of ids that a node is being given, in pieces.
type refill struct {
	ask node.LatchOp
	// all are the ids, and sent is how many of them were sent.
	all  []string
	sent int
	// busy is set until the node has answered the last piece: no other refill begins before.
	busy bool
}

// next returns the operation that gives the next piece. Only the last piece says that the node is
// whole.
func (g *refill) next() *node.LatchOp {
	ask := g.ask
	ask.IDs = g.all[g.sent:min(g.sent+node.MaxListed, len(g.all))]
	if g.sent += len(ask.IDs); g.sent < len(g.all) {
		ask.Whole = 0
	}
	return &ask
}

func (r *round) env() *Env { return &r.call.latches.env }

func (r *round) need() int { return r.call.latches.need }

func (r *round) init(nodes int) {
	r.answers, r.summaries = make([]quorum.LatchAnswer, nodes), make([]quorum.LatchAnswer, nodes)
	r.nodes = make([]nodeState, nodes)
	r.begun = make(map[*node.LatchOp]reading)
	r.decided = make(chan struct{})
}

func (r *round) send() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.init(r.env().Nodes.Len())
	r.sendLocked()
}

func (r *round) sendLocked() {
	nodes := r.env().Nodes
	r.sentAt = r.env().Clock.Now()
	r.began = uint64(max(r.env().Clock.Wall().UnixMicro(), 0))
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
func (r *round) beginReading() {
	r.submit(r.env().Nodes.All(), r.token, func(i int) *node.LatchOp {
		ask := r.ask
		ask.From = r.call.copyOf(i).next()
		r.begun[&ask] = reading{r.readings, true}
		return &ask
	})
}

// submitTo sends one operation to one node, and reports whether an answer will come. Requires r.mu.
func (r *round) submitTo(i int, ask *node.LatchOp, token uint64) bool {
	return r.submit(quorum.Set(0).With(i), token, func(int) *node.LatchOp { return ask }).Has(i)
}

// submit sends an operation to each node of a set, and returns the nodes from which an answer will
// come. Requires r.mu.
func (r *round) submit(to quorum.Set, token uint64, ask func(i int) *node.LatchOp) quorum.Set {
	env := r.env()
	r.call.mu.Lock()
	defer r.call.mu.Unlock()
	calls := dispatch.NewCalls(env.Nodes.Len(), node.Op{
		Kind: r.kind, Names: []string{r.call.name}, TTL: r.call.ttl, Token: token, Limits: env.Limits,
	})
	for i := range to.All() {
		op := calls.Op
		op.Latch = ask(i)
		if r.inboxes.Has(i) && !r.call.left {
			op.Latch.Inbox, op.Latch.Keep = env.Inbox, env.Keep
		}
		calls.To(i).To, calls.To(i).Op = r, &op
	}
	asked := env.Nodes.Send(calls, to, func(i int, err error) bool {
		r.nodes[i].err = err
		return true
	})
	r.unanswered += asked.Len()
	return asked
}

// Answer implements dispatch.Receiver.
func (r *round) Answer(c *dispatch.Call, reply *node.Reply) {
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
func (r *round) recordReply(c *dispatch.Call, reply *node.Reply) (news bool) {
	i, s := c.Node(), reply.Latch
	n := &r.nodes[i]
	if reply.Err != nil || s == nil {
		n.err = reply.Err
		if c.Op.Latch != nil && c.Op.Latch.Exact {
			n.refill.busy = false
		}
		return true
	}
	r.env().Tokens.Observe(max(s.Generation, s.Since, s.Last), r.call.name)
	a := quorum.LatchAnswer{
		Told: true, Generation: s.Generation, Count: s.Count, Since: s.Since,
		Refilled: s.Whole, Recovering: reply.Recovering > 0, Size: s.Size,
	}
	if length := r.env().Limits.Recovery().Microseconds(); s.Until > length {
		a.Memory = uint64(s.Until - length)
	}
	if before := &r.answers[i]; before.Generation == a.Generation && n.recoveryEnd == s.Until && n.born == s.Born {
		a.IDs = before.IDs
	}
	n.recoveryEnd, n.born, n.err, r.summaries[i] = s.Until, s.Born, nil, a
	r.summaries[i].IDs = nil
	if a.Memory != 0 {
		n.refillable = r.env().Clock.Now() + untilRefillable(r.env().Limits, reply.Recovering)
	}
	granted := reply.Outcome == node.Granted
	if granted {
		r.granted = r.granted.With(i)
	}
	if granted && r.deletes && s.Count > 0 && !reply.Repeated {
		r.setAgain = r.setAgain.With(i)
	}
	switch {
	case c.Op.Latch.List:
		read, whole, more := r.read(c, s)
		if !whole {
			return !more // a part of the ids is no answer
		}
		a.IDs = read
		n.readBefore = max(n.readBefore, r.begun[c.Op.Latch].number)
	case c.Op.Latch.Exact:
		g := &n.refill
		if granted {
			sent := g.all[:g.sent]
			if len(sent) < len(g.all) && r.submitTo(i, g.next(), 0) {
				return false
			}
			a.IDs = quorum.UnionOfIDs(a.IDs, sent)
		}
		g.busy = false
	case granted:
		a.IDs = quorum.UnionOfIDs(a.IDs, c.Op.Latch.IDs)
	}
	r.answers[i] = a
	return true
}

// read takes the ids that a node has listed. It asks for more until the call has read as many ids
// as the node had when the reading began. Since ids keep their order, the node had all of them at
// one moment of the round. whole is set once it has, and more if another answer will come. If neither
// is set, the node has failed: it is not asked for the rest, or does not list it.
func (r *round) read(c *dispatch.Call, s *node.LatchState) (all []string, whole, more bool) {
	i, ask := c.Node(), *c.Op.Latch
	n, ids := &r.nodes[i], r.call.copyOf(i)
	read := ids.add(ask.From, s)
	begun := r.begun[c.Op.Latch]
	if begun.first || read < ask.From || s.Size < n.goal { // the last two: the node has another memory
		n.goal = s.Size
	}
	switch {
	case read >= n.goal || r.bySizes:
		return ids.all(), true, false
	case len(s.IDs) == 0 && ask.From < s.Size: // it would be asked again without end
		n.err = &node.Error{Node: r.env().Nodes.Name(i), Op: r.kind, Reason: node.ErrProtocol, Err: errUnlisted}
		return nil, false, false
	}
	ask.From, ask.Inbox = read, ""
	r.begun[&ask] = reading{number: begun.number}
	return nil, false, r.submitTo(i, &ask, r.token)
}

// errUnlisted is the error of a node whose reply counts ids and has none.
var errUnlisted = errors.New("the reply counts ids, and has none of them")

// forgot reports whether enough witnesses have been read since a node lost its memory. Only then do
// they have everything that the node may have forgotten. An earlier answer of a witness may lack a
// count-down that reached both later. If the loss may have happened during the round, all ids are
// read again. After a loss of a moment ago, the reading waits: the ids of a prompt round may still be on
// their way to the witnesses. Requires r.mu.
func (r *round) forgot(i int, v *quorum.LatchView) (known bool) {
	if r.answers[i].ForgotBefore(r.began, r.skew()) {
		return true
	}
	n := &r.nodes[i]
	if wait := n.refillable - r.env().Clock.Now(); wait > 0 {
		r.repairLater(wait)
		return false
	}
	if n.lost != n.recoveryEnd {
		r.readings++
		n.lost, n.lostBefore = n.recoveryEnd, r.readings
		r.beginReading()
	}
	witnesses := 0
	for j, a := range r.answers {
		if v.Member(a, r.skew()) && r.nodes[j].readBefore >= n.lostBefore {
			witnesses++
		}
	}
	return witnesses >= r.need()
}

// view is the combined answers, or the repair target once enough nodes have that but not yet what
// was added since. Requires r.mu.
func (r *round) view() quorum.LatchView { return r.viewOf(r.answers) }

// viewOf is view for other answers. Requires r.mu.
func (r *round) viewOf(answers []quorum.LatchAnswer) quorum.LatchView {
	v := r.mergedOf(answers)
	if t := r.repairTarget; t != nil && v.Known && v.Holders < r.need() && t.Alike(&v) {
		if holders := t.HeldBy(answers); holders >= r.need() {
			full := v.Full
			v, v.Holders, v.Full = *t, holders, full
		}
	}
	return v
}

// sizes is the combined answers without ids. Requires r.mu.
func (r *round) sizes() quorum.LatchView {
	return quorum.ViewLatch(r.summaries, r.need(), nil, r.skew())
}

// skew is how far clocks may differ, in the unit of tokens, and how much later than a loss a prompt
// round may end that began before it.
func (r *round) skew() uint64 {
	limits := r.env().Limits
	return uint64((limits.MaxClockSkew + refillAfter(limits)).Microseconds())
}

// merged is the combined answers. Requires r.mu.
func (r *round) merged() quorum.LatchView { return r.mergedOf(r.answers) }

func (r *round) mergedOf(answers []quorum.LatchAnswer) quorum.LatchView {
	var known []string
	if r.anyGeneration || r.generation == latestOf(answers) {
		known = r.known
	}
	return quorum.ViewLatch(answers, r.need(), known, r.skew())
}

func (r *round) latest() (generation uint64) { return latestOf(r.answers) }

func latestOf(answers []quorum.LatchAnswer) (generation uint64) {
	for _, a := range answers {
		generation = max(generation, a.Generation)
	}
	return generation
}

// repair gives each node its missing ids, once enough nodes have answered. A node gets one repair
// for each target; otherwise the repairs would chase concurrent count-downs for ever.
//
// A node that lost its memory counts again after a repair. The repair must include everything that
// the others knew after the loss; see forgot. Requires r.mu.
func (r *round) repair() {
	v := r.merged()
	if r.deletes || !v.Known || v.Rival != 0 {
		return
	}
	if r.repairTarget == nil || !r.repairTarget.Alike(&v) {
		r.repairTarget, r.repaired = &v, 0
	}
	for i, a := range r.answers {
		n := &r.nodes[i]
		if !a.Told || r.repaired.Has(i) || n.refill.busy {
			continue
		}
		lacksIDs := r.ask.List && v.Count > 0 && !v.Member(a, r.skew())
		if lacksIDs && !r.forgot(i, &v) || v.Holds(a) && !lacksIDs {
			continue
		}
		r.repaired = r.repaired.With(i)
		g := refill{ask: node.LatchOp{Exact: true, Generation: v.Generation, Void: true}}
		if v.Count > 0 {
			g.ask.Count, g.ask.Since, g.ask.Chosen, g.all = v.Count, v.Since, v.Chosen, v.Missing(a)
		}
		if lacksIDs {
			g.ask.Whole = n.recoveryEnd
		}
		n.refill = g
		n.refill.busy = r.submitTo(i, n.refill.next(), 0)
	}
}

// decideIfDone ends the round once it is decided, or no operation is in flight. The sizes may
// decide a round that is still reading ids: if enough nodes have enough ids, the ids do not matter.
// Requires r.mu.
func (r *round) decideIfDone(news bool) {
	if r.done || r.confirmation != nil {
		return
	}
	var v quorum.LatchView
	if news || r.unanswered == 0 {
		v = r.view()
	}
	if r.ask.List && r.unanswered > 0 && (!v.Known || !r.enough(&v)) {
		if s := r.sizes(); s.Known && s.Full >= r.need() && !r.anyForgot(&s) {
			v, r.bySizes = s, true
		}
	}
	switch decided := r.unanswered == 0 || v.Known && r.enough(&v) || r.deletes && r.enough(&v); {
	case !decided:
	case r.proves(&v) && r.late():
		r.confirm()
	default:
		r.finish(v)
	}
}

// finish ends the round. Requires r.mu.
func (r *round) finish(v quorum.LatchView) {
	r.done, r.outcome = true, v
	if r.anyGeneration { // a later answer may know of a deletion after the call
		r.anyGeneration, r.generation = false, r.latest()
	}
	close(r.decided)
}

// anyForgot reports whether an answer is of a node that has lost its memory. Requires r.mu.
func (r *round) anyForgot(v *quorum.LatchView) bool {
	return slices.ContainsFunc(r.summaries, func(a quorum.LatchAnswer) bool { return a.Told && !v.Member(a, r.skew()) })
}

// glance sums up the sizes. Requires r.mu.
func (r *round) glance(v *quorum.LatchView) glance {
	g := glance{
		count: v.Count, most: v.Most, mayBeDone: v.MayBeDone(r.summaries, r.need(), r.skew()), forgetful: r.anyForgot(v),
	}
	for i, a := range r.summaries {
		g.sum += a.Size
		g.read += len(r.answers[i].IDs)
	}
	return g
}

// nodeIDs has the ids that a call has read from one node. A node lists a bounded number of ids at
// a time, in the order in which they arrived. That order does not change while the node remembers.
// So the call reads each id once, however often it asks.
type nodeIDs struct {
	mu sync.Mutex
	// generation, until and born identify one memory of the node.
	generation  uint64
	until, born int64
	// ids are the ids that were read, in the order of the node. sorted are the same ids in order;
	// it may lag behind.
	ids, sorted []string
}

// next returns the position of the first id that was not read yet.
func (c *nodeIDs) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids)
}

// add adds the ids that a node has listed from position from on. It returns how many of the node's
// ids are read now. If the node has another memory than before, add discards the earlier ids. Then,
// unless from is 0, reading starts again.
func (c *nodeIDs) add(from int, s *node.LatchState) (read int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Generation != c.generation || s.Until != c.until || s.Born != c.born || s.Size < len(c.ids) {
		c.generation, c.until, c.born = s.Generation, s.Until, s.Born
		c.ids, c.sorted = nil, nil
	}
	if known := len(c.ids) - from; known >= 0 && known < len(s.IDs) {
		c.ids = append(c.ids, s.IDs[known:]...)
	}
	return len(c.ids)
}

// all returns the ids that were read, sorted.
func (c *nodeIDs) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if news := c.ids[len(c.sorted):]; len(news) > 0 {
		c.sorted = quorum.UnionOfIDs(c.sorted, slices.Sorted(slices.Values(news)))
	}
	return c.sorted
}
