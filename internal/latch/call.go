package latch

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
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
}

// Call returns a call on the latch with this name and TTL.
func (l *Latches) Call(ctx context.Context, name string, ttl time.Duration) *Call {
	return &Call{latches: l, ctx: ctx, name: name, ttl: ttl, seen: l.generationOf(name)}
}

// Rounds returns how often the nodes were asked.
func (x *Call) Rounds() int { return x.rounds }

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

// run makes a round whose operations have this token, and lets judge make the outcome of its result.
// While judge runs, the mutex of the round is held.
func (x *Call) run(r *round, token uint64, judge func(v *decision.LatchView) Outcome) Outcome {
	x.rounds++
	r.send(token)
	stop := x.latches.env.wait(x.ctx, r.decided, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	v := x.conclude(r)
	if stop != NotStopped && !r.settled() {
		return r.stopped(stop)
	}
	return judge(&v)
}

// conclude records the generation of a round for the call and its client, and returns the result of
// the round. Requires r.mu.
func (x *Call) conclude(r *round) decision.LatchView {
	tokens := x.latches.env.Tokens
	if latest := r.latest(); tokens.Plausible(latest) {
		x.seen = max(x.seen, latest)
		x.latches.observeGeneration(x.name, x.seen, x.minusSkew(r.token))
	}
	tokens.Observe(r.token, x.name)
	v := r.result()
	if r.anyGeneration { // a later answer may know of a deletion after the call
		r.known = nil
	}
	return v
}

// retry repeats attempt until it succeeds, or until more attempts cannot help. It repeats only if
// too few nodes agreed.
func (x *Call) retry(attempt func() (*round, Outcome)) Outcome {
	env := &x.latches.env
	for n := 1; ; n++ {
		seen := x.seen
		r, o := attempt()
		if o.Result != NoQuorum || o.CutShort || r.isHopeless() {
			return o
		}
		if x.seen > seen {
			continue // the next attempt knows the newer generation
		}
		if o.Stopped = env.sleep(x.ctx, decision.Backoff(n-1, env.RetryMin, env.RetryMax, env.Jitter()), nil); o.Stopped != NotStopped {
			return o
		}
	}
}

// Set sets the latch to n.
func (x *Call) Set(n int) Outcome {
	need := x.latches.need
	return x.retry(func() (*round, Outcome) {
		r := newRound(x.latches, x.name, x.ttl, wire.LatchOp{Count: n, First: true})
		r.ask.Since = r.token
		r.enough = func(v *decision.LatchView) bool {
			return v.Chosen && v.Count != n || v.Count == n && v.Holders >= need
		}
		return r, x.run(r, x.operationToken(r.token), func(v *decision.LatchView) Outcome {
			switch {
			case v.Known && v.Count > 0 && v.Count != n:
				return Outcome{Result: OtherCount, Count: v.Count, Chosen: v.Chosen}
			case v.Known && v.Rival != 0:
				return Outcome{Result: OtherCount, Count: v.Rival}
			case !v.Known || v.Count == 0 || v.Holders < need:
				return r.short()
			default:
				return Outcome{}
			}
		})
	})
}

// CountDown counts down for an id.
func (x *Call) CountDown(id string) Outcome {
	need, ids, forgetful := x.latches.need, []string{id}, false
	o := x.retry(func() (*round, Outcome) {
		r := newRound(x.latches, x.name, x.ttl, wire.LatchOp{IDs: ids})
		r.known, r.anyGeneration = ids, true
		r.enough = func(v *decision.LatchView) bool { return v.Holders >= need }
		return r, x.run(r, x.operationToken(r.token), func(v *decision.LatchView) Outcome {
			forgetful = r.forgetful
			switch {
			case v.Known && v.Rival != 0:
				return Outcome{Result: OtherCount, Count: v.Count}
			case !v.Known || v.Holders < need:
				return r.short()
			case v.Count == 0:
				return Outcome{Result: NotSet}
			default:
				return Outcome{}
			}
		})
	})
	if o.ok() && forgetful {
		x.Count() // it gives the node its ids back
	}
	return o
}

// read makes a round that lists all ids, and makes the nodes agree on them. A call that waits need not
// know how many ids are missing.
func (x *Call) read(r *round, waits bool) (v decision.LatchView, o Outcome) {
	o = x.run(r, r.token, func(result *decision.LatchView) Outcome {
		v = *result
		switch {
		case v.Known && v.Rival != 0:
			return Outcome{Result: OtherCount, Count: v.Count}
		case !v.Known || v.Holders < x.latches.need && (!waits || v.Left() == 0):
			return r.short()
		case v.Count == 0:
			return Outcome{Result: NotSet}
		default:
			return Outcome{Left: v.Left()}
		}
	})
	return v, o
}

// Count reads how many ids must still count down.
func (x *Call) Count() Outcome {
	_, o := x.read(newRead(x.latches, x.name, x.ttl), false)
	return o
}

// Delete deletes the latch. If possible, all attempts are one deletion with one token: a node's
// confirmation stays valid for all of them.
func (x *Call) Delete() Outcome {
	need := x.latches.need
	var began time.Duration // when the deletion with the present token began
	propose := func() uint64 {
		began = x.latches.env.Clock.Now()
		return x.latches.env.Tokens.Propose(x.name)
	}
	token, before, begun := propose(), decision.Set(0), false
	sent := uint64(0) // the token of the last attempt
	return x.retry(func() (*round, Outcome) {
		first := sent != token
		sent = token
		r := newRound(x.latches, x.name, x.ttl, wire.LatchOp{})
		r.kind, r.deletes, r.deletedAt, r.token, r.granted = wire.Unlatch, true, began, token, before
		if begun {
			r.kind, r.ask = wire.Latch, wire.LatchOp{Exact: true, Generation: token, Void: true}
		}
		confirmed := func() bool { return r.deletedBy().Len() >= need }
		r.enough = func(*decision.LatchView) bool { return confirmed() && (!first || r.setAgain == 0) }
		return r, x.run(r, token, func(*decision.LatchView) Outcome {
			switch {
			case first && r.setAgain.Len() == len(r.last):
				// This call began the generation on no node. So another client did, with an equal token, and the
				// latch that was set in it is still to be deleted. Without the answers of all nodes, that is not
				// certain: a second deletion would delete a latch that was set after the first one.
				token, before, begun = propose(), 0, false
			case confirmed():
				return Outcome{}
			case r.refuses() && r.granted != 0 && r.latest() == token:
				// The generation has begun on a node, so any call may pass it on, and set the next latch in
				// it. The others get it too, whatever they have seen: a larger token would delete that latch.
				begun, before = true, r.granted
			case r.refuses():
				token, before, begun = propose(), 0, false
			default:
				before = r.granted
			}
			return r.short()
		})
	})
}

// Await waits until enough ids have counted down.
func (x *Call) Await() (o Outcome) {
	var w *watcher
	defer func() {
		if w != nil {
			x.leave(w, o.ok())
		}
	}()
	var seen *decision.LatchView // the last result
	var last Outcome             // of the last round that was not cut short
	for {
		r := x.watching(w, seen)
		v, o := x.read(r, true)
		switch {
		case o.CutShort && last.Result != Done: // the complete round says more
			last.Stopped = o.Stopped
			return last
		case o.Stopped != NotStopped:
			return o
		case v.Known && seen != nil && v.Generation != seen.Generation:
			return Outcome{Result: Deleted}
		case o.Result != Done && (o.Result != NoQuorum || r.isHopeless()):
			return o
		case o.ok() && v.Done():
			return Outcome{}
		case v.Known:
			seen = &v
		}
		if w == nil {
			w = x.latches.watchers.add(x.name)
		}
		if last = o; o.ok() {
			last = Outcome{Result: Open, Left: v.Left(), Count: v.Count}
		}
		if last.Stopped = w.wait(x.ctx); last.Stopped != NotStopped {
			return last
		}
	}
}

// watching returns a round that lists all ids, and lets the nodes report more of them to a watcher. The
// round repeats the ids that were seen, so that an id is not lost once a waiter has read it.
func (x *Call) watching(w *watcher, seen *decision.LatchView) *round {
	r := newRead(x.latches, x.name, x.ttl)
	r.enough = func(v *decision.LatchView) bool {
		return v.Holders >= x.latches.need || v.Left() > 0 && v.Rival == 0
	}
	if w != nil {
		r.inboxes = w.begin()
	}
	if seen != nil {
		r.known, r.generation = seen.IDs, seen.Generation
	}
	return r
}

// leave ends the wait of a watcher. It tells the nodes to forget the client, unless the latch is
// done or another call of this client waits for it.
func (x *Call) leave(w *watcher, done bool) {
	l := x.latches
	if others := l.watchers.remove(w); others || done {
		return
	}
	l.submit(w.entered, wire.Op{
		Kind: wire.Latch, Names: []string{x.name}, TTL: x.ttl, Token: l.env.Tokens.Propose(x.name),
		Latch: &wire.LatchOp{Inbox: l.env.Inbox},
	}, dispatch.Ignore, func(int, error) {}) // if it is lost, the node forgets the client later
	l.watchers.wake(x.name) // the nodes may just have been told to forget them
}
