package latch

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// A result counts only if enough nodes held it at one moment. A round collects answers of different
// moments. Suppose that a node answers, loses its memory, and gets back the ids of the others. Then it
// counts again, without the result. A late answer of another node completes a majority that never was.
//
// A prompt round excludes that: no client gives a node its ids back so soon after a loss. A round
// that takes longer is confirmed. It asks the nodes once more whether they still have the memory
// with which they answered.

// maxPrompt bounds promptWithin.
const maxPrompt = time.Second / 2

// promptWithin is how long a round may take and needs no confirmation. All clients have the same
// value, since a node refuses clients with other limits.
func promptWithin(l node.Limits) time.Duration { return min(l.Recovery()/8, maxPrompt) }

// refillAfter is how old a loss must be before a client reads the ids that the node has forgotten. By
// then each prompt round that began before the loss has ended. The margin is for the rates of clocks,
// and for the millisecond to which a node rounds the rest of its recovery.
func refillAfter(l node.Limits) time.Duration { return promptWithin(l)*5/4 + time.Millisecond }

// untilRefillable returns when a loss will be refillAfter ago, for a node whose recovery lasts for left.
func untilRefillable(l node.Limits, left time.Duration) time.Duration {
	return refillAfter(l) - (l.Recovery() - left)
}

// repairLater repairs the nodes after a wait, even if the round is over by then. Only one round of the
// client does that for a latch at a time. Requires r.mu.
func (r *round) repairLater(wait time.Duration) {
	l, name := r.call.latches, r.call.name
	if !l.postponeRefill(name) {
		return
	}
	l.env.Clock.AfterFunc(wait, func() {
		l.endPostponement(name)
		select {
		case <-l.env.Quit:
			return
		default:
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.repair()
	})
}

// confirmation asks the nodes once more, after a round that was not prompt. The mutex of the round
// guards it.
type confirmation struct {
	round *round
	// answers, summaries and nodes are copies from the moment when the round had its result.
	answers, summaries []quorum.LatchAnswer
	nodes              []nodeState
	// kept are the nodes that have kept their memory since they answered. errs says why others did
	// not answer again.
	kept       quorum.Set
	errs       []error
	unanswered int
}

// late reports whether the round has taken so long that its result has to be confirmed.
func (r *round) late() bool {
	return r.env().Clock.Now()-r.sentAt > promptWithin(r.env().Limits)
}

// proves reports whether enough nodes hold the result of the round. Requires r.mu.
func (r *round) proves(v *quorum.LatchView) bool {
	if r.deletes {
		return r.deletedOn().Len() >= r.need()
	}
	return v.Known && (v.Holders >= r.need() || v.Full >= r.need())
}

// deletedOn returns the nodes that hold the deletion, as far as the round knows. A node that confirmed
// it in an earlier attempt need not answer again. But if it does, its answer counts. Requires r.mu.
func (r *round) deletedOn() (nodes quorum.Set) {
	for i := range r.granted.All() {
		a := &r.answers[i]
		forgot := a.Told && (a.Generation < r.token || r.confirmation != nil && !r.confirmation.kept.Has(i))
		if !forgot {
			nodes = nodes.With(i)
		}
	}
	return nodes
}

// confirm asks the nodes that have answered once more. Requires r.mu.
func (r *round) confirm() {
	env := r.env()
	c := &confirmation{
		round: r, answers: slices.Clone(r.answers), summaries: slices.Clone(r.summaries), nodes: slices.Clone(r.nodes),
		errs: make([]error, len(r.nodes)),
	}
	var asked quorum.Set
	for i, a := range r.answers {
		if a.Told && (!r.deletes || r.granted.Has(i)) {
			asked = asked.With(i)
		}
	}
	r.confirmation = c
	calls := dispatch.NewCalls(env.Nodes.Len(), node.Op{
		Kind: node.Latch, Names: []string{r.call.name}, TTL: r.call.ttl, Token: r.call.propose(), Limits: env.Limits,
		Latch: &node.LatchOp{},
	})
	for i := range asked.All() {
		calls.To(i).To = c
	}
	c.unanswered = env.Nodes.Send(calls, asked, func(i int, err error) bool {
		c.errs[i] = err
		return true
	}).Len()
	c.conclude()
}

// Answer implements dispatch.Receiver.
func (c *confirmation) Answer(call *dispatch.Call, reply *node.Reply) {
	r := c.round
	r.mu.Lock()
	defer r.mu.Unlock()
	c.unanswered--
	i, s := call.Node(), reply.Latch
	switch {
	case reply.Err != nil || s == nil:
		c.errs[i] = reply.Err
	case c.keeps(i, s):
		c.kept = c.kept.With(i)
	default:
		c.errs[i] = r.forgotten(i)
	}
	if !r.done {
		c.conclude()
	}
}

// keeps reports whether a node has kept its memory since its answer. A deletion since is no loss.
func (c *confirmation) keeps(i int, s *node.LatchState) bool {
	a, n := &c.answers[i], &c.nodes[i]
	same := s.Generation == a.Generation && s.Born == n.born && s.Count == a.Count
	return s.Until == n.recoveryEnd && (same || s.Generation > a.Generation)
}

// conclude ends the round once enough nodes have kept their memory, or all have answered. Only these
// nodes count then. Requires r.mu.
func (c *confirmation) conclude() {
	r, answers := c.round, c.answers
	if r.bySizes {
		answers = c.summaries
	}
	kept := make([]quorum.LatchAnswer, len(answers))
	for i := range c.kept.All() {
		kept[i] = answers[i]
	}
	v := r.viewOf(kept)
	if r.proves(&v) || c.unanswered == 0 {
		r.finish(v)
	}
}
