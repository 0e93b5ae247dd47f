package latch

import (
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// round asks all nodes about a latch, and repairs each node once with the ids of the others. It is
// asking until it is decided. Answers after the decision still count for repairs.
type round struct {
	latches *Latches
	ttl     time.Duration
	kind    wire.Kind
	// deletes is set for a deletion, which is decided by the nodes that confirm it. deletedAt is when its first attempt
	// began.
	deletes   bool
	deletedAt time.Duration
	// token is the token of the operation, and ask its arguments.
	token uint64
	ask   wire.LatchOp
	// inboxes are the nodes that should report later changes to the client.
	inboxes decision.Set
	// known are ids that count even if no node has them. They count in the given generation, or in
	// any if anyGeneration is set.
	known         []string
	generation    uint64
	anyGeneration bool
	// enough reports whether a view decides the round before all nodes have answered.
	enough  func(v *decision.LatchView) bool
	decided chan struct{}

	mu sync.Mutex
	answers
	// repaired are the nodes that were given their missing ids.
	repaired decision.Set
	// sentAt is when the round began, by the clock of the client.
	sentAt time.Duration
	// forgetful is set if a node lost its memory so long ago that a round which lists the ids restores it.
	forgetful bool
	// target must be on enough nodes before its ids may be told: everything that was known when enough
	// nodes had answered. Later count-downs do not delay it.
	target *decision.LatchView
	// unanswered counts the operations in flight.
	unanswered int
	// done is set with the decision. outcome is the view that decided the round; later answers do not
	// change it.
	done    bool
	outcome decision.LatchView
	// confirmation is set if the round took too long, and is confirmed.
	confirmation *confirmation
}

// need is how many nodes have to agree.
func (r *round) need() int { return r.latches.need }

// newRound returns a round about a latch, with a new token.
func newRound(l *Latches, name string, ttl time.Duration, ask wire.LatchOp) *round {
	return &round{
		latches: l, ttl: ttl, kind: wire.Latch, token: l.env.Tokens.Propose(name), ask: ask,
		decided: make(chan struct{}), answers: newAnswers(&l.env, name),
	}
}

// newRead returns a round that lists all ids, and changes nothing except by repairs.
func newRead(l *Latches, name string, ttl time.Duration) *round {
	r := newRound(l, name, ttl, wire.LatchOp{List: true})
	r.enough = func(v *decision.LatchView) bool { return v.Holders >= l.need }
	return r
}

// send asks all nodes. token may be older than the token of the round.
func (r *round) send(token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sentAt = r.env.Clock.Now()
	asks, tells := r.ask, r.ask
	tells.Inbox, tells.Keep = r.env.Inbox, r.env.Keep
	r.submit(r.env.Nodes.All()&^r.inboxes, token, &asks)
	r.submit(r.inboxes, token, &tells)
	r.decide()
}

// submit sends an operation to each node of a set. Requires r.mu.
func (r *round) submit(to decision.Set, token uint64, ask *wire.LatchOp) {
	r.unanswered += r.latches.submit(to, wire.Op{Kind: r.kind, Names: []string{r.name}, TTL: r.ttl, Token: token, Latch: ask}, r,
		func(i int, err error) { r.of[i].err = err })
}

// submit sends an operation to each node of a set, and returns how many answers will come.
func (l *Latches) submit(to decision.Set, op wire.Op, receiver dispatch.Receiver, refused func(i int, err error)) int {
	op.Limits = l.env.Limits
	calls := dispatch.NewCalls(l.env.Nodes.Len(), op)
	for i := range to.All() {
		calls.To(i).To = receiver
	}
	return l.env.Nodes.Send(calls, to, func(i int, err error) bool {
		refused(i, err)
		return true
	}).Len()
}

// Answer implements dispatch.Receiver.
func (r *round) Answer(c *dispatch.Call, reply *wire.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered--
	r.record(c, reply)
	r.repair()
	r.decide()
	r.passOn()
}

// combined is the combined answers. Requires r.mu.
func (r *round) combined(as *answers) decision.LatchView {
	var known []string
	if r.anyGeneration || r.generation == as.latest() {
		known = r.known
	}
	return as.merged(r.need(), known)
}

// view is the combined answers, or the target once enough nodes have that but not yet what was added
// since. Requires r.mu.
func (r *round) view(as *answers) decision.LatchView {
	v := r.combined(as)
	if t := r.target; t != nil && v.Known && v.Holders < r.need() && t.Alike(&v) {
		if holders := t.HeldBy(as.last); holders >= r.need() {
			v, v.Holders = *t, holders
		}
	}
	return v
}

// repair gives each node its missing ids, once enough nodes have answered. A node gets one repair
// for each target; otherwise the repairs would chase concurrent count-downs for ever.
//
// A node that lost its memory counts again after a repair. The repair must include everything that
// the others knew after the loss. So only a round that began later restores the node. Requires r.mu.
func (r *round) repair() {
	v := r.combined(&r.answers)
	if r.deletes || !v.Known || v.Rival != 0 {
		return
	}
	if r.target == nil || !r.target.Alike(&v) {
		r.target, r.repaired = &v, 0
	}
	for i, a := range r.last {
		if !a.Told || r.repaired.Has(i) {
			continue
		}
		restores := false
		switch forgot := v.Count > 0 && !v.Member(a, r.skew()); {
		case forgot && r.mayRestore(i):
			restores = true
		case forgot && r.ask.List, v.Holds(a):
			continue
		}
		r.repaired = r.repaired.With(i)
		ask := wire.LatchOp{Exact: true, Generation: v.Generation, Void: true}
		if v.Count > 0 {
			ask.Count, ask.Since, ask.Chosen, ask.IDs = v.Count, v.Since, v.Chosen, v.Missing(a)
		}
		if restores {
			ask.Whole = r.of[i].memory
		}
		r.submit(decision.Set(0).With(i), 0, &ask)
	}
}

// passOnFor is for how long a client tries to pass a deletion on, at most.
const passOnFor = 10 * time.Minute

// passOn tells the nodes that missed a confirmed deletion of it, once they answer. Otherwise they would keep
// the latch until its TTL has passed, or until another call finds it.
//
// The nodes that confirmed the deletion remember it for the TTL. After that it must reach no node: it would delete a
// latch that was set anew, on all nodes. Requires r.mu.
func (r *round) passOn() {
	if !r.deletes || !r.done || r.deletedBy().Len() < r.need() {
		return
	}
	now := r.env.Clock.Now()
	until := min(now+passOnFor, r.deletedAt+r.ttl/2)
	if now >= until {
		return
	}
	for i, a := range r.last {
		missed := r.of[i].err != nil || a.Told && a.Generation < r.token
		if !missed || r.repaired.Has(i) || r.of[i].refusesForGood() {
			continue
		}
		r.repaired = r.repaired.With(i)
		_ = r.env.Nodes.Submit(i, &dispatch.Call{
			Op: &wire.Op{
				Kind: wire.Latch, Names: []string{r.name}, TTL: r.ttl, Limits: r.env.Limits,
				Latch: &wire.LatchOp{Exact: true, Generation: r.token, Void: true},
			},
			To: dispatch.Ignore, Until: until,
		}) // an error means that the node is asked later
	}
}

// mayRestore reports whether this round may restore node i, which has lost its memory. If the round began
// too early, another one will. Requires r.mu.
func (r *round) mayRestore(i int) bool {
	from := r.of[i].lost + refillAfter(r.env.Limits)
	if r.sentAt <= from {
		r.restoreLater(from - r.env.Clock.Now() + time.Millisecond)
		return false
	}
	r.forgetful = true
	return r.ask.List
}

// restoreLater restores the nodes by another round after a wait, even if this one is over by then. Only
// one round of the client does that for a latch at a time. Requires r.mu.
func (r *round) restoreLater(wait time.Duration) {
	l, name, ttl := r.latches, r.name, r.ttl
	if !l.beginRestore(name) {
		return
	}
	l.env.Clock.AfterFunc(max(wait, 0), func() {
		l.endRestore(name)
		select {
		case <-l.env.Quit:
		default:
			next := newRead(l, name, ttl)
			next.send(next.token)
		}
	})
}

// decide ends the round once it is decided, or no operation is in flight. Requires r.mu.
func (r *round) decide() {
	if r.done || r.confirmation != nil {
		return
	}
	v := r.view(&r.answers)
	switch decided := r.unanswered == 0 || (v.Known || r.deletes) && r.enough(&v); {
	case !decided:
	case r.proves(&v) && r.late():
		r.confirm()
	default:
		r.finish(v)
	}
}

// finish ends the round. Requires r.mu.
func (r *round) finish(v decision.LatchView) {
	r.done, r.outcome = true, v
	close(r.decided)
}

// result is the outcome of the round, or the view so far. Requires r.mu.
func (r *round) result() decision.LatchView {
	if r.done {
		return r.outcome
	}
	return r.view(&r.answers)
}

// settled reports whether the round has a result, though it may still wait for nodes that matter to a
// deletion. Requires r.mu.
func (r *round) settled() bool {
	return r.done || r.deletes && r.deletedBy().Len() >= r.need() && !r.late()
}

// late reports whether the round has taken so long that its result has to be confirmed.
func (r *round) late() bool { return r.env.Clock.Now()-r.sentAt > promptWithin(r.env.Limits) }

// proves reports whether enough nodes hold the result of the round. Requires r.mu.
func (r *round) proves(v *decision.LatchView) bool {
	if r.deletes {
		return r.deletedBy().Len() >= r.need()
	}
	return v.Known && v.Holders >= r.need()
}

// deletedBy returns the nodes that hold the deletion, as far as the round knows. Requires r.mu.
func (r *round) deletedBy() decision.Set {
	deleted := r.deletedOn(r.token)
	if r.confirmation == nil {
		return deleted
	}
	for i := range deleted.All() {
		if r.last[i].Told && !r.confirmation.kept.Has(i) {
			deleted = deleted.Without(i)
		}
	}
	return deleted
}

// confirmation asks the nodes once more, after a round that was not prompt. The mutex of the round
// guards it.
type confirmation struct {
	round *round
	// asked are the answers of the moment when the round had its result.
	asked answers
	// kept are the nodes that have kept their memory since they answered. errs says why others did
	// not answer again.
	kept       decision.Set
	errs       []error
	unanswered int
}

// confirm asks the nodes that have answered once more. Requires r.mu.
func (r *round) confirm() {
	c := &confirmation{round: r, asked: r.clone(), errs: make([]error, len(r.last))}
	var to decision.Set
	for i, a := range r.last {
		if a.Told && (!r.deletes || r.granted.Has(i)) {
			to = to.With(i)
		}
	}
	r.confirmation = c
	token := r.env.Tokens.Propose(r.name)
	c.unanswered = r.latches.submit(to, wire.Op{Kind: wire.Latch, Names: []string{r.name}, TTL: r.ttl, Token: token, Latch: &wire.LatchOp{}}, c,
		func(i int, err error) { c.errs[i] = err })
	c.conclude()
}

// Answer implements dispatch.Receiver.
func (c *confirmation) Answer(call *dispatch.Call, reply *wire.Reply) {
	r := c.round
	r.mu.Lock()
	defer r.mu.Unlock()
	c.unanswered--
	i, s := call.Node(), reply.Latch
	switch {
	case reply.Err != nil || s == nil:
		c.errs[i] = reply.Err
	case c.asked.kept(i, s):
		c.kept = c.kept.With(i)
	default:
		c.errs[i] = r.forgotten(i)
	}
	if !r.done {
		c.conclude()
	}
}

// conclude ends the round once enough nodes have kept their memory, or all have answered. Only these
// nodes count then. Requires r.mu.
func (c *confirmation) conclude() {
	r, kept := c.round, c.asked.clone()
	for i := range kept.last {
		if !c.kept.Has(i) {
			kept.last[i] = decision.LatchAnswer{}
		}
	}
	v := r.view(&kept)
	if r.proves(&v) || c.unanswered == 0 {
		r.finish(v)
	}
}

// short is the outcome of a round in which too few nodes agreed. Requires r.mu.
func (r *round) short() Outcome {
	var again []error
	if r.confirmation != nil {
		again = r.confirmation.errs
	}
	v := r.view(&r.answers)
	s := r.shortage(&v, r.need(), again)
	if r.deletes {
		s.Agreed = r.deletedBy().Len()
	}
	return Outcome{Result: NoQuorum, Shortage: s}
}

// stopped is the outcome of a call that ended while the round was under way. Requires r.mu.
func (r *round) stopped(by Stop) Outcome {
	if by == ByClose {
		return Outcome{Stopped: by}
	}
	o := r.short()
	o.Stopped, o.CutShort = by, true
	return o
}

// isHopeless reports whether too many nodes reject the call permanently for any attempt to succeed.
func (r *round) isHopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hopeless(r.need(), r.token)
}
