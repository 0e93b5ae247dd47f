package quorumlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// trace records one acquiring call for the hook Acquisition. It is nil unless that hook is set: a
// nil trace records nothing.
//
// A call returns before the slower nodes have voted, and the trace ends when all have. The trace
// travels in the context of the attempts, as an attempt is made either by a waiter or by
// TryAcquire.
type trace struct {
	client *Client
	began  time.Duration

	mu    sync.Mutex
	event AcquisitionEvent
	// open counts the missing votes, and the call itself until it returns.
	open int
}

// maxTraceVotes bounds the votes that a trace keeps, as a caller may wait for long.
const maxTraceVotes = 128

// traceKey finds the trace in a context.
type traceKey struct{}

// startTrace starts the trace of a call if the hook is set. The returned context is for the
// attempts.
func (l *Lock) startTrace(ctx context.Context) (context.Context, *trace) {
	if l.client.cfg.Hooks.Acquisition == nil {
		return ctx, nil
	}
	c := l.client.clock
	t := &trace{client: l.client, began: c.Now(), open: 1}
	t.event = AcquisitionEvent{Context: ctx, Names: l.Names(), Reads: l.spec.Reads, Began: c.Wall()}
	return context.WithValue(ctx, traceKey{}, t), t
}

// traceFrom returns the trace of the call that an attempt belongs to, or nil.
func (c *Client) traceFrom(ctx context.Context) *trace {
	if c.cfg.Hooks.Acquisition == nil {
		return nil
	}
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// tracedAttempt makes an attempt, and records how long it took.
func (l *Lock) tracedAttempt(ctx context.Context, w *waiter) (*grant, retry, error) {
	t := l.client.traceFrom(ctx)
	if t == nil {
		return l.attempt(ctx, w)
	}
	began := l.client.clock.Now()
	g, again, err := l.attempt(ctx, w)
	took := l.client.clock.Now() - began

	t.mu.Lock()
	defer t.mu.Unlock()
	t.event.Attempts++
	t.event.Asking += took
	return g, again, err
}

// onReturn records the outcome of the call.
func (t *trace) onReturn(got *lease, err error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.event
	e.Took, e.Err = t.client.clock.Now()-t.began, err
	if got != nil {
		e.Owner, e.Token = got.grant.owner, got.token
		e.HandedOver = got.grant.trace != t
		e.Took = got.grantedAt - t.began
	}
	t.done()
}

// onAsked records that a node is asked to vote.
func (t *trace) onAsked() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open++
}

// onVote records the vote of a node.
func (t *trace) onVote(e VoteEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.event.Votes) == maxTraceVotes {
		t.event.Votes = slices.Delete(t.event.Votes, 0, 1)
		t.event.Dropped++
	}
	t.event.Votes = append(t.event.Votes, e)
	t.done()
}

// done counts one vote or call less, and tells the hook when none is left. Requires t.mu.
func (t *trace) done() {
	if t.open--; t.open == 0 {
		report(&t.client.reporter, t.client.cfg.Hooks.Acquisition, t.event)
	}
}

// reportVote tells the hooks how a node voted. Requires g.mu.
func (g *grant) reportVote(kind node.Kind, i int, sent time.Duration, r *node.Reply, v quorum.Vote) {
	hook := g.client.cfg.Hooks.Voted
	tr := g.trace
	if kind != node.Acquire {
		tr = nil
	}
	if hook == nil && tr == nil {
		return
	}
	e := VoteEvent{
		Node: g.client.nodes.Name(i), Op: kind, Names: g.lock.Names(), Owner: g.owner,
		Vote: v, Unsent: r.Unsent, At: g.client.clock.Wall(), Err: g.denialError(kind, i, r, v),
	}
	if !r.Unsent {
		e.Took = g.client.clock.Now() - sent
	}
	report(&g.client.reporter, hook, e)
	if tr != nil {
		tr.onVote(e)
	}
}

// denialError returns why a node did not grant. Requires g.mu.
func (g *grant) denialError(kind node.Kind, i int, r *node.Reply, v quorum.Vote) error {
	switch {
	case v == quorum.Granted:
		return nil
	case kind == node.Acquire && r.Outcome == node.Denied:
		return &HeldError{Name: g.lock.displayName(r.Holder.Name), Owner: r.Holder.Owner, TTL: r.Holder.TTL}
	default:
		return replyError(g.refusals.get(i))
	}
}
