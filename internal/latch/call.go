package latch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Call is one call of a method of a latch. It runs on the caller's goroutine, and is used once.
type Call struct {
	latches *Latches
	ctx     context.Context //nolint:containedctx // it lives as long as the call whose context it is
	name    string
	ttl     time.Duration
	// rounds counts how often the nodes were asked.
	rounds int
	// seen is the latest generation that this call or its client has seen.
	seen uint64

	// mu is held while an operation is submitted. left is set once the call no longer waits.
	mu   sync.Mutex
	left bool
	// glanced is the last round that read sizes only.
	glanced *round
	// copies has the ids that this call has read from each node.
	copies []*nodeIDs
}

// Rounds returns how often the nodes were asked.
func (x *Call) Rounds() int { return x.rounds }

// copyOf returns the ids that this call has read from node i.
func (x *Call) copyOf(i int) *nodeIDs {
	if x.copies == nil { // the first round that reads makes them
		x.copies = make([]*nodeIDs, x.latches.env.Nodes.Len())
		for i := range x.copies {
			x.copies[i] = &nodeIDs{}
		}
	}
	return x.copies[i]
}

// propose returns a token larger than all that were seen with this latch.
func (x *Call) propose() uint64 { return x.latches.env.Tokens.Propose(x.name) }

// operationToken is the token with which nodes set the latch and count down. It is smaller than the
// token of any deletion that is called later, if clocks agree within MaxClockSkew. So a late
// operation has no effect on a generation that began after this call, unless the call was told of
// that generation.
func (x *Call) operationToken(token uint64) uint64 {
	return max(x.minusSkew(token), x.seen+1)
}

// minusSkew returns the token from MaxClockSkew earlier.
func (x *Call) minusSkew(token uint64) uint64 {
	return token - min(token, uint64(x.latches.env.Limits.MaxClockSkew.Microseconds()))
}

// runRound makes a round, and returns its result.
func (x *Call) runRound(r *round) (quorum.LatchView, Stop) {
	x.rounds++
	r.call = x
	r.send()
	stop := x.wait(r.decided)
	return x.conclude(r), stop
}

// wait waits for an event. It says if the context or the client ends first.
func (x *Call) wait(event <-chan struct{}) Stop {
	select {
	case <-event:
		return NotStopped
	case <-x.ctx.Done():
		return ByContext
	case <-x.latches.env.Quit:
		return ByClose
	}
}

// conclude records the generation of a round for the call and its client, and returns the result of
// the round.
func (x *Call) conclude(r *round) quorum.LatchView {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.latches.env.Tokens.Plausible(r.latest()) {
		x.seen = max(x.seen, r.latest())
		x.latches.observeGeneration(x.name, x.seen, x.minusSkew(r.token))
	}
	x.latches.env.Tokens.Observe(r.token, x.name)
	if r.done {
		return r.outcome
	}
	return r.view()
}

// retry repeats attempt until it succeeds, or until more attempts cannot help. It repeats only if
// too few nodes agreed.
func (x *Call) retry(attempt func() (*round, Outcome)) Outcome {
	env := &x.latches.env
	for n := 1; ; n++ {
		seen := x.seen
		r, o := attempt()
		if o.Result != NoQuorum || o.CutShort || r.hopeless() {
			return o
		}
		if x.seen > seen {
			continue // the next attempt knows the newer generation
		}
		if o.Stopped = x.sleep(quorum.Backoff(n-1, env.RetryMin, env.RetryMax, env.Jitter()), nil); o.Stopped != NotStopped {
			return o
		}
	}
}

// hopeless reports whether too many nodes reject the call permanently for any attempt to succeed.
func (r *round) hopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	permanent := 0
	for i := range r.nodes {
		var nodeErr *node.Error
		if errors.As(r.nodes[i].err, &nodeErr) &&
			(nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && r.env().Tokens.IsCurrent(r.token)) { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > len(r.nodes)-r.need()
}

// sleep waits for d, or until a signal. It says if the context or the client ends first.
func (x *Call) sleep(d time.Duration, signals <-chan struct{}) Stop {
	late := make(chan struct{})
	timer := x.latches.env.Clock.AfterFunc(max(d, 0), func() { close(late) })
	defer timer.Stop()
	select {
	case <-late:
		return NotStopped
	case <-signals:
		return NotStopped
	case <-x.ctx.Done():
		return ByContext
	case <-x.latches.env.Quit:
		return ByClose
	}
}

// Set sets the latch to n.
func (x *Call) Set(n int) Outcome {
	return x.retry(func() (*round, Outcome) {
		token := x.propose()
		r := &round{kind: node.Latch, token: token, ask: node.LatchOp{Count: n, First: true, Since: token}}
		r.enough = func(v *quorum.LatchView) bool {
			return v.Known && (v.Chosen && v.Count != n || v.Count == n && v.Holders >= x.latches.need)
		}
		v, stop := x.runRound(r)
		switch {
		case stop != NotStopped:
			return r, r.stopped(stop)
		case v.Known && v.Count > 0 && v.Count != n:
			return r, Outcome{Result: OtherCount, Count: v.Count, Chosen: v.Chosen}
		case v.Known && v.Rival != 0:
			return r, Outcome{Result: OtherCount, Count: v.Rival}
		case !v.Known || v.Count == 0 || v.Holders < x.latches.need:
			return r, r.short()
		default:
			return r, Outcome{}
		}
	})
}

// giveBack lets a round refill the nodes that have lost their memory. It reads all ids, so only one
// call of the client does that for a latch at a time.
func (x *Call) giveBack() {
	if x.latches.beginRefill(x.name) {
		defer x.latches.endRefill(x.name)
		_, _, _ = x.lookUp(nil, false)
	}
}

// lookUp reads all ids, and makes the nodes agree on them. known is the last view of the caller, or
// nil. A call that waits need not know how many ids are missing.
func (x *Call) lookUp(known *quorum.LatchView, waits bool) (*quorum.LatchView, glance, Outcome) {
	r := &round{kind: node.Latch, token: x.propose(), ask: node.LatchOp{List: true}}
	if known != nil {
		r.known, r.generation = known.IDs, known.Generation
	}
	r.enough = func(v *quorum.LatchView) bool {
		return v.Full >= x.latches.need || waits && v.Left() > 0 || v.Holders >= x.latches.need
	}
	return x.read(r, func(v *quorum.LatchView) bool { return waits && v.Left() > 0 })
}

// read makes a round that changes nothing except by repairs. fine reports whether a view suffices
// though too few nodes have all of it.
func (x *Call) read(r *round, fine func(*quorum.LatchView) bool) (*quorum.LatchView, glance, Outcome) {
	v, stop := x.runRound(r)
	r.mu.Lock()
	g := r.glance(&v)
	r.mu.Unlock()
	var o Outcome
	switch {
	case stop != NotStopped:
		o = r.stopped(stop)
	case v.Known && v.Rival != 0:
		o = Outcome{Result: OtherCount, Count: v.Count}
	case !v.Known || v.Full < x.latches.need && v.Holders < x.latches.need && !fine(&v):
		o = r.short()
	case v.Count == 0:
		o = Outcome{Result: NotSet}
	}
	return &v, g, o
}

// Count reads how many ids must still count down.
func (x *Call) Count() Outcome {
	v, _, o := x.lookUp(nil, false)
	if o.ok() && v.Full < x.latches.need {
		o.Left = v.Left()
	}
	return o
}

// Delete deletes the latch. If possible, all attempts are one deletion with one token: a node's
// confirmation stays valid for all of them.
func (x *Call) Delete() Outcome {
	token, before, begun := x.propose(), quorum.Set(0), false
	sent := uint64(0) // the token of the last attempt
	return x.retry(func() (*round, Outcome) {
		first := sent != token
		sent = token
		r := &round{kind: node.Unlatch, deletes: true, token: token, granted: before}
		if begun {
			r.kind, r.ask = node.Latch, node.LatchOp{Exact: true, Generation: token, Void: true}
		}
		confirmed := func() bool { return r.deletedOn().Len() >= x.latches.need }
		r.enough = func(*quorum.LatchView) bool { return confirmed() && (!first || r.setAgain == 0) }
		_, stop := x.runRound(r)
		r.mu.Lock()
		isConfirmed := confirmed() && (r.done || !r.late()) // perhaps while the round still waits for the other nodes
		r.mu.Unlock()
		if stop != NotStopped && !isConfirmed {
			return r, r.stopped(stop)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case first && r.setAgain.Len() == len(r.nodes):
			// This call began the generation on no node. So another client did, with an equal token, and the
			// latch that was set in it is still to be deleted. Without the answers of all nodes, that is not
			// certain: a second deletion would delete a latch that was set after the first one.
			token, before, begun = x.propose(), 0, false
		case confirmed():
			return r, Outcome{}
		case r.tokenRefused() && r.granted != 0 && r.latest() == token:
			// The generation has begun on a node, so any call may pass it on, and set the next latch in
			// it. The others get it too, whatever they have seen: a larger token would delete that latch.
			begun, before = true, r.granted
		case r.tokenRefused():
			token, before, begun = x.propose(), 0, false
		default:
			before = r.granted
		}
		return r, Outcome{Result: NoQuorum, Shortage: r.shortage()}
	})
}

// tokenRefused reports whether a node refuses the token. Only then is another token proposed: it
// would also delete a latch that was set after this one took effect. Requires r.mu.
func (r *round) tokenRefused() bool {
	for i, a := range r.answers {
		var refusal *node.Error
		if a.Told && !r.granted.Has(i) || errors.As(r.nodes[i].err, &refusal) && refusal.Reason == node.ErrClock { //nolint:errorlint // a reason is never wrapped
			return true
		}
	}
	return false
}
