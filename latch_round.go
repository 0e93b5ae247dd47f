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
// have, once each. Answers that come after it was decided are folded in all the same.
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
	known      []string
	generation uint64
	any        bool
	// enough reports whether a view decides the round before all have answered.
	enough  func(v *quorum.LatchView) bool
	decided chan struct{}

	mu      sync.Mutex
	answers []quorum.LatchAnswer
	// until are the ends of the nodes' recoveries as they stand in their markers, errs why
	// there is no answer, granted those that did what they were asked, mended those that were
	// given what they lacked.
	until           []int64
	errs            []error
	granted, mended uint64
	// target is what has to be on enough nodes before it may be told: all that there was when
	// enough had answered. What others do meanwhile is not waited for.
	target *quorum.LatchView
	// out counts the operations that are to be answered.
	out  int
	over bool
	// outcome is the view that decided the round: what comes later is of no account to who asked.
	outcome quorum.LatchView
}

// send asks all nodes.
func (r *latchRound) send() {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.call.latch.client.nodes.Len()
	r.answers = make([]quorum.LatchAnswer, n)
	r.until, r.errs = make([]int64, n), make([]error, n)
	r.decided = make(chan struct{})
	for i := range n {
		ask, token := r.ask, r.token
		if ask.First || len(ask.IDs) > 0 {
			token = r.call.earliest(token)
		}
		r.submit(i, &ask, token)
	}
	r.judge()
}

// submit sends one operation. The mutex is held.
func (r *latchRound) submit(i int, ask *node.LatchOp, token uint64) {
	l := r.call.latch
	r.call.mu.Lock()
	defer r.call.mu.Unlock()
	if r.inboxes&(1<<i) != 0 && !r.call.left {
		ask.Inbox, ask.Keep = l.client.id, l.client.keepEntry()
	}
	c := &dispatch.Call{To: r, Op: &node.Op{
		Kind: r.kind, Names: l.name[:], TTL: l.ttl, Token: token, Limits: l.client.cfg.limits(), Latch: ask,
	}}
	if err := l.client.nodes.Submit(i, c); err != nil {
		r.errs[i] = err
		return
	}
	r.out++
}

// answer is what one node says.
func (r *latchRound) Answer(c *dispatch.Call, reply *node.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out--
	r.note(c, reply)
	r.mend()
	r.judge()
}

// note keeps an answer. A node that fails a later operation has still said what it has.
func (r *latchRound) note(c *dispatch.Call, reply *node.Reply) {
	s := reply.Latch
	if reply.Err != nil || s == nil {
		r.errs[c.Node()] = reply.Err
		return
	}
	l := r.call.latch
	l.client.tokens.saw(max(s.Generation, s.Since, s.Last), l.name[0])
	r.until[c.Node()], r.errs[c.Node()] = s.Until, nil
	a := quorum.LatchAnswer{
		Told: true, Generation: s.Generation, Count: s.Count, Since: s.Since,
		Refilled: s.Whole, Recovering: reply.Recovering > 0,
	}
	if before := r.answers[c.Node()]; before.Generation == a.Generation {
		a.IDs = before.IDs
	}
	if length := l.client.cfg.limits().Recovery().Microseconds(); s.Until > length {
		a.Memory = uint64(s.Until - length)
	}
	granted := reply.Outcome == node.Granted
	if granted {
		r.granted |= 1 << c.Node()
	}
	switch {
	case c.Op.Latch.List:
		a.IDs = slices.Sorted(slices.Values(s.IDs))
	case granted:
		a.IDs = slices.Sorted(slices.Values(c.Op.Latch.IDs))
	}
	r.answers[c.Node()] = a
}

// view is what the answers come to so far, or the target once enough nodes have that, but not yet
// what came to it since. The mutex is held.
func (r *latchRound) view() quorum.LatchView {
	v := r.union()
	if t := r.target; t != nil && v.Known && v.Holders < r.call.need && t.Alike(&v) {
		if holders := t.HeldBy(r.answers); holders >= r.call.need {
			v, v.Holders = *t, holders
		}
	}
	return v
}

// union is all that the answers come to so far. The mutex is held.
func (r *latchRound) union() quorum.LatchView {
	limits := r.call.latch.client.cfg.limits()
	skew := uint64(limits.MaxClockSkew.Microseconds())
	var known []string
	if r.any || r.generation == r.latest() {
		known = r.known
	}
	return quorum.ViewLatch(r.answers, r.call.need, known, skew)
}

func (r *latchRound) latest() (generation uint64) {
	for _, a := range r.answers {
		generation = max(generation, a.Generation)
	}
	return generation
}

// mend gives nodes what others have, and they lack, once enough have said what there is. One
// that lost its memory is whole again with that, if all ids are known. Each is given it once for
// a target: then it has that, and what others do meanwhile could be run after for ever. The mutex
// is held.
func (r *latchRound) mend() {
	v := r.union()
	if r.kind != node.Latch || !v.Known || v.Disputed {
		return
	}
	if r.target == nil || !r.target.Alike(&v) {
		r.target, r.mended = &v, 0
	}
	skew := uint64(r.call.latch.client.cfg.limits().MaxClockSkew.Microseconds())
	for i, a := range r.answers {
		refill := r.ask.List && v.Count > 0 && !v.Member(a, skew)
		if !a.Told || r.mended&(1<<i) != 0 || v.Holds(a) && !refill {
			continue
		}
		r.mended |= 1 << i
		ask := &node.LatchOp{Exact: true, Generation: v.Generation, Void: true, List: r.ask.List}
		if v.Count > 0 {
			ask.Count, ask.Since, ask.Chosen, ask.IDs = v.Count, v.Since, v.Chosen, v.Missing(a)
		}
		if refill {
			ask.Whole = r.until[i]
		}
		r.submit(i, ask, 0)
	}
}

// judge ends the round once it is decided, or nothing more is to come. The mutex is held.
func (r *latchRound) judge() {
	if r.over {
		return
	}
	v := r.view()
	if r.out == 0 || r.enough(&v) {
		r.over, r.outcome = true, v
		close(r.decided)
	}
}

// forgetful reports whether a node has answered that is no witness, as it has lost its memory.
// The mutex is held.
func (r *latchRound) forgetful(v *quorum.LatchView) bool {
	skew := uint64(r.call.latch.client.cfg.limits().MaxClockSkew.Microseconds())
	return slices.ContainsFunc(r.answers, func(a quorum.LatchAnswer) bool { return a.Told && !v.Member(a, skew) })
}

// errForgotten is why the answer of a node did not count.
var errForgotten = errors.New("it has lost its memory since the latch was set, and was not given it back yet")

// noQuorum says why too few nodes agreed. The mutex is held.
func (r *latchRound) noQuorum() *NoQuorumError {
	l, v := r.call.latch, r.view()
	skew := uint64(l.client.cfg.limits().MaxClockSkew.Microseconds())
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
