package latch

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
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
	stop := x.latches.env.wait(x.ctx, r.decided)
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
