package quorumlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// trace gathers what the hook Acquisition is told of one call that acquires. There is none
// unless that hook is set, and then its methods do nothing.
//
// A call has returned before the slower nodes have voted: the trail ends when all of them have.
// It travels in the context of the attempts, as the call may be a waiter's or not.
type trace struct {
	client *Client
	began  time.Duration

	mu    sync.Mutex
	event AcquisitionEvent
	// open counts the votes that are out, and the call itself.
	open int
}

// maxTraceVotes bounds the votes that a trail keeps, as somebody may wait for long.
const maxTraceVotes = 128

// traceKey finds the trail in a context.
type traceKey struct{}

// startTrace begins the trail of a call, if anybody wants to know. The context is for its attempts.
func (l *Lock) startTrace(ctx context.Context) (context.Context, *trace) {
	if l.client.cfg.Hooks.Acquisition == nil {
		return ctx, nil
	}
	c := l.client.clock
	t := &trace{client: l.client, began: c.Now(), open: 1}
	t.event = AcquisitionEvent{Context: ctx, Names: l.Names(), Reads: l.shared, Began: c.Wall()}
	return context.WithValue(ctx, traceKey{}, t), t
}

// traceFrom is the trail of the call that an attempt is made for.
func (c *Client) traceFrom(ctx context.Context) *trace {
	if c.cfg.Hooks.Acquisition == nil {
		return nil
	}
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

// tracedAttempt makes an attempt, and notes how long that took.
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

// onReturn notes what the call came to.
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

// onAsked notes that a node is asked to vote.
func (t *trace) onAsked() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open++
}

// onVote notes what it voted.
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

// done has one thing less to wait for, and tells the hook when nothing is left. The mutex is held.
func (t *trace) done() {
	if t.open--; t.open == 0 {
		report(&t.client.reporter, t.client.cfg.Hooks.Acquisition, t.event)
	}
}

// reportVote tells the hooks what a node voted, if anybody wants to know. The mutex is held.
func (g *grant) reportVote(kind node.Kind, i int, sent time.Duration, r *node.Reply, v quorum.Vote) {
	hook := g.client.cfg.Hooks.Voted
	trail := g.trace
	if kind != node.Acquire {
		trail = nil
	}
	if hook == nil && trail == nil {
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
	if trail != nil {
		trail.onVote(e)
	}
}

// denialError is why a node did not grant. The mutex is held.
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
