package latch

import (
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// A client sends count-downs of one latch in groups. A lone count-down goes at once. Those that
// come while a round is under way wait, and leave together in the next round. So a thousand
// callers cost a node a few commands. A round that counts down for several ids succeeds only if
// enough nodes have all of them.

// latchKey tells which count-downs may share an operation.
type latchKey struct {
	name string
	ttl  time.Duration
}

// batch is a group of count-downs that one round sends together.
type batch struct {
	latches *Latches
	key     latchKey
	round   *round
	// after is closed when the batch before is decided. It is nil if none is under way.
	after <-chan struct{}

	// The mutex of the latches guards the fields below. members counts the calls that wait, by id.
	// calls counts all calls that have not left. begun is set when the round is sent. No id is added
	// after that, and ids leave under the mutex of the round too.
	members map[string]int
	calls   int
	begun   bool
}

// CountDown counts down for an id. Its outcome is the outcome of a round that sent the id.
func (x *Call) CountDown(id string) Outcome {
	return x.retry(func() (*round, Outcome) {
		b := x.joinBatch(id)
		stop := x.awaitBatch(b)
		b.leave(id)
		r := b.round
		v := x.conclude(r)
		switch {
		case stop != NotStopped:
			return r, r.stopped(stop)
		case v.Known && v.Rival != 0:
			return r, Outcome{Result: OtherCount, Count: v.Count}
		case !v.Known || v.Holders < x.latches.need:
			return r, r.short()
		case v.Count == 0:
			return r, Outcome{Result: NotSet}
		}
		r.mu.Lock()
		forgetful := r.anyForgot(&v)
		r.mu.Unlock()
		if forgetful {
			x.giveBack()
		}
		return r, Outcome{}
	})
}

// joinBatch adds an id to the batch that is sent next. The call must leave the batch.
func (x *Call) joinBatch(id string) *batch {
	x.rounds++
	l := x.latches
	l.mu.Lock()
	defer l.mu.Unlock()
	key := latchKey{x.name, x.ttl}
	last := l.batches[key]
	b := last
	if last == nil || last.begun || len(last.members) >= node.MaxListed {
		b = l.newBatch(key)
		if last != nil && !isClosed(last.round.decided) {
			b.after = last.round.decided
		}
		l.batches[key] = b
	}
	b.members[id]++
	b.calls++
	b.round.call.seen = max(b.round.call.seen, x.seen)
	return b
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// newBatch returns an empty batch. Its round has a call of its own, as it may outlive any member.
func (l *Latches) newBatch(key latchKey) *batch {
	r := &round{
		call: &Call{latches: l, name: key.name, ttl: key.ttl},
		kind: node.Latch, anyGeneration: true,
		enough: func(v *quorum.LatchView) bool { return v.Known && v.Holders >= l.need },
	}
	r.init(l.env.Nodes.Len())
	return &batch{latches: l, key: key, round: r, members: make(map[string]int)}
}

// awaitBatch waits until the batch is decided. The first member that sees the
// decision of the previous batch sends this one.
func (x *Call) awaitBatch(b *batch) Stop {
	if b.after != nil {
		if stop := x.wait(b.after); stop != NotStopped {
			return stop
		}
	}
	b.begin()
	return x.wait(b.round.decided)
}

// begin sends the round, unless it was sent.
func (b *batch) begin() {
	r := b.round
	r.mu.Lock()
	defer r.mu.Unlock()
	b.latches.mu.Lock()
	begun := b.begun
	b.begun = true
	b.latches.mu.Unlock()
	if begun {
		return
	}
	ids := slices.Sorted(maps.Keys(b.members))
	r.ask.IDs, r.known, r.token = ids, ids, r.call.propose()
	r.call.seen = max(r.call.seen, b.latches.generationOf(b.key.name))
	r.sendLocked()
}

// leave ends the wait of a member. From then on its id counts only where nodes have counted it,
// unless another member waits for the same id, or the round is done. If all members leave a batch
// that was not sent, the next one need not wait for it.
func (b *batch) leave(id string) {
	r, l := b.round, b.latches
	r.mu.Lock()
	defer r.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.members[id]--; b.members[id] == 0 {
		delete(b.members, id)
	}
	if !r.done {
		r.known = slices.Sorted(maps.Keys(b.members))
	}
	if b.calls--; b.calls > 0 {
		return
	}
	if !b.begun {
		b.begun = true
		close(r.decided)
	}
	if l.batches[b.key] == b {
		delete(l.batches, b.key)
	}
}
