package quorumlock

import (
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// ask sends the round of acquisition to all nodes in parallel. It stops early where so
// many nodes are down that the round is lost before it has begun.
func (h *hold) ask(began time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = began
	if h.entry != nil {
		h.entry.begin(h.began)
	}
	h.send()
}

// send proposes the token to every node that has not failed the round. The mutex is
// held.
func (h *hold) send() {
	h.proposals++
	v := newVolley(len(h.client.lanes), h.acquisition())
	for i, l := range h.client.lanes {
		if h.taken.Vote(i) != quorum.Missing {
			continue
		}
		h.asked |= 1 << i
		if h.sendTo(i, l, v); h.over() {
			return
		}
	}
}

// sendTo proposes the token to one node.
func (h *hold) sendTo(i int, l *lane, v *volley) {
	c := &v.calls[i]
	c.sink = h
	h.trail.asks()
	if h.entry != nil {
		op := v.op
		h.entry.sign(&op, i)
		c.op = &op
	}
	if err := l.submit(c); err != nil {
		h.vote(i, 0, h.token, &node.Reply{Err: err, Unsent: true})
	} else {
		h.out |= 1 << i
	}
}

// answer is a node's vote in the round of acquisition.
func (h *hold) answer(c *call, r *node.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.out &^= 1 << c.lane()
	h.vote(c.lane(), c.sent, c.op.Token, r)
	switch {
	case h.phase == held:
		h.straggle()
	case h.phase == acquiring && h.outbid() && h.lock.reads:
		h.writeBack()
	case h.phase == acquiring && h.outbid():
		h.proposeAgain()
	case h.phase == ended && h.tenure == nil && h.asked&(1<<c.lane()) != 0:
		now := h.client.clock.Now()
		if h.entry != nil && h.round.Vote(c.lane()) == quorum.Granted {
			h.entry.returned(c.lane(), now)
		}
		// Before what has been sent since: that may be another attempt of the same waiter.
		h.undoOne(c.lane(), now, true)
	}
}

// vote counts a node's answer to the acquisition with this token.
func (h *hold) vote(i int, sent time.Duration, token uint64, r *node.Reply) {
	over := h.over()
	if h.implausible(i, token, r) {
		r = h.client.lanes[i].disbelieve(token, r)
	}
	if h.lock.reads && r.Outcome == node.Granted && r.Token == 0 {
		r = &node.Reply{Err: &node.Error{Node: h.client.lanes[i].node.Name(), Op: node.Acquire, Reason: node.ErrProtocol, Err: errNoFence}}
	}
	v := h.note(i, sent, r)
	h.tellVote(node.Acquire, i, sent, r, v)
	if r.Unsent && h.proposals == 1 && h.tenure == nil {
		h.asked &^= 1 << i // and no other proposal can have reached it
	}
	h.round.Record(i, v)
	h.learn(i, r)
	if h.lock.slots != nil {
		h.lock.slots.learn(i, h.lock.names, r)
	}
	if h.entry != nil {
		h.entry.voted(i, h.client.clock.Now(), r)
	}
	switch {
	case h.lock.reads:
		if v != quorum.Granted {
			h.failed |= 1 << i
		}
		h.recount()
	case v != quorum.Granted:
		h.taken.Record(i, quorum.Unknown)
	case token != h.token: // an answer to a proposal that has been raised since
	case r.Token == 0:
		h.taken.Record(i, quorum.Granted)
	default:
		h.taken.Record(i, quorum.Denied)
	}
	if v == quorum.Denied && token == h.token && !h.renewed && !r.Repeated {
		// It has nothing of this owner: all that was sent before has been answered, too.
		h.asked &^= 1 << i
	}
	if !over && h.over() {
		close(h.decided)
	}
}

// learn keeps the token that a node has told, or took.
func (h *hold) learn(i int, r *node.Reply) {
	fence := max(r.Token, r.Holder.Token)
	switch {
	case fence == 0 && h.fences == nil:
		return
	case h.fences == nil:
		h.fences = make([]uint64, len(h.claims))
	}
	if r.Outcome == node.Granted && !h.lock.reads {
		fence = max(fence, h.last)
	}
	h.fences[i] = max(h.fences[i], fence)
}

// learnt is the token that enough nodes would take, or one more than it, by what they have
// told: whatever the others know.
func (h *hold) learnt() uint64 { return quorum.ToBeat(h.fences, h.lock.need) }

// implausible reports whether a node has told a token that it cannot have taken.
//
// It did not refuse ours as too old, so its clock is less than MaxTTL ahead of that, and it
// takes nothing that is more than MaxClockSkew ahead of its clock: to outbid such a token
// would have all other nodes refuse us. And while this owner has the node, nobody else
// raises the token there: one that is larger than what the node knew before, it takes. If the
// operation ran twice, the second run finds the token of the first.
func (h *hold) implausible(i int, token uint64, r *node.Reply) bool {
	if r.Outcome != node.Granted || r.Token == 0 {
		return false
	}
	tooFar := r.Token >= token+uint64(h.client.cfg.limits().Recovery().Microseconds())
	raised := !r.Repeated && !h.lock.reads && h.fences != nil && h.fences[i] != 0 && h.fences[i] < token
	return tooFar || raised
}

// over reports whether the round is decided: enough nodes have granted and taken the
// token, or so many have not granted that the others are too few.
func (h *hold) over() bool {
	result := h.taken.Result()
	return result == quorum.Won || h.taken.Unknown() > len(h.claims)-h.lock.need ||
		result == quorum.Lost && int(h.proposals) > len(h.claims)
}

// outbid reports whether enough nodes may grant, and yet too few have taken the token,
// as others know a larger one. One more proposal does, or one for each node that is late
// to tell.
func (h *hold) outbid() bool {
	return h.taken.Result() == quorum.Lost && !h.over()
}

// proposeAgain asks the nodes that granted to take a token that is larger than what enough
// of them have told. It is an acquisition by the same owner again, so they grant it again too.
// Those that have failed the round are out of it.
func (h *hold) proposeAgain() {
	last := h.taken
	h.taken = quorum.NewTally(len(h.claims), h.lock.need)
	fences := slices.Clone(h.fences)
	for i := range h.claims {
		if last.Vote(i) == quorum.Unknown {
			h.taken.Record(i, quorum.Unknown)
			fences[i] = math.MaxUint64 // it takes nothing
		}
	}
	h.token = h.client.tokens.propose(h.lock.names, max(h.last, quorum.ToBeat(fences, h.lock.need)))
	h.last = h.token // whoever has to outbid others does so alone
	h.send()
}

// win turns a round that was won in time into a lease: at this instant, enough nodes
// have granted it, took its token, and have not let go.
func (h *hold) win() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.client.clock.Now()
	if h.taken.Result() != quorum.Won || h.takenAndActive(now) < h.lock.need {
		return false
	}
	h.phase, h.grantedAt, h.decided = held, now, nil
	h.validUntil = quorum.ValidUntil(h.claims, h.lock.need)
	if h.lock.reads {
		h.token, h.last = h.shared, h.shared
	}
	h.client.tokens.saw(h.last, h.lock.names...)
	h.first.begin(h, h.lock, h.token, now)
	if !h.lock.fixed {
		h.renewAt = h.nextRenewal(h.began)
	}
	if !h.client.schedule.set(h, h.nextDue()) {
		h.tenure = nil
		return false
	}
	h.client.lines.took(h)
	return true
}

// takenAndActive is how many nodes took the token under a claim that still lasts.
func (h *hold) takenAndActive(now time.Duration) int {
	n := 0
	for i, expiry := range h.claims {
		if expiry > now && h.taken.Vote(i) == quorum.Granted {
			n++
		}
	}
	return n
}

// abandon ends a round that was lost, or that nobody waits for any more. Every node
// that may have taken it gives it back, once it has answered: one that denies has nothing.
// What was learnt of tokens serves the next.
func (h *hold) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = ended
	h.client.tokens.saw(h.learnt(), h.lock.names...)
	now := h.client.clock.Now()
	for i := range h.claims {
		if h.asked&^h.out&(1<<i) == 0 {
			continue
		}
		if h.entry != nil && h.round.Vote(i) == quorum.Granted {
			h.entry.gaveBack(i, now)
		}
		h.undoOne(i, now, false)
	}
	h.lock.unname(false)
}
