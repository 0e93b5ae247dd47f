package quorumlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// trail gathers what the hook Acquisition is told of one call that acquires. There is none
// unless that hook is set, and then its methods do nothing.
//
// A call has returned before the slower nodes have voted: the trail ends when all of them have.
// It travels in the context of the attempts, as the call may be a waiter's or not.
type trail struct {
	client *Client
	began  time.Duration

	mu    sync.Mutex
	event AcquisitionEvent
	// open counts the votes that are out, and the call itself.
	open int
}

// maxTrail bounds the votes that a trail keeps, as somebody may wait for long.
const maxTrail = 128

// trailKey finds the trail in a context.
type trailKey struct{}

// follow begins the trail of a call, if anybody wants to know. The context is for its attempts.
func (l *Lock) follow(ctx context.Context) (context.Context, *trail) {
	if l.client.cfg.Hooks.Acquisition == nil {
		return ctx, nil
	}
	c := l.client.clock
	t := &trail{client: l.client, began: c.Now(), open: 1}
	t.event = AcquisitionEvent{Context: ctx, Names: l.Names(), Reads: l.reads, Began: c.Wall()}
	return context.WithValue(ctx, trailKey{}, t), t
}

// trailIn is the trail of the call that an attempt is made for.
func (c *Client) trailIn(ctx context.Context) *trail {
	if c.cfg.Hooks.Acquisition == nil {
		return nil
	}
	t, _ := ctx.Value(trailKey{}).(*trail)
	return t
}

// try makes an attempt, and notes how long that took.
func (l *Lock) try(ctx context.Context, w *waiter) (*hold, retry, error) {
	t := l.client.trailIn(ctx)
	if t == nil {
		return l.attempt(ctx, w)
	}
	began := l.client.clock.Now()
	h, again, err := l.attempt(ctx, w)
	took := l.client.clock.Now() - began

	t.mu.Lock()
	defer t.mu.Unlock()
	t.event.Attempts++
	t.event.Asking += took
	return h, again, err
}

// end notes what the call came to.
func (t *trail) end(got *tenure, err error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.event
	e.Took, e.Err = t.client.clock.Now()-t.began, err
	if got != nil {
		e.Owner, e.Token = got.hold.owner, got.token
		e.HandedOver = got.hold.trail != t
		e.Took = got.grantedAt - t.began
	}
	t.close()
}

// asks notes that a node is asked to vote.
func (t *trail) asks() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open++
}

// voted notes what it voted.
func (t *trail) voted(e VoteEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.event.Votes) == maxTrail {
		t.event.Votes = slices.Delete(t.event.Votes, 0, 1)
		t.event.Dropped++
	}
	t.event.Votes = append(t.event.Votes, e)
	t.close()
}

// close has one thing less to wait for, and tells the hook when nothing is left. The mutex is held.
func (t *trail) close() {
	if t.open--; t.open == 0 {
		fire(&t.client.reports, t.client.cfg.Hooks.Acquisition, t.event)
	}
}

// tellVote tells the hooks what a node voted, if anybody wants to know. The mutex is held.
func (h *hold) tellVote(kind node.Kind, i int, sent time.Duration, r *node.Reply, v quorum.Vote) {
	hook := h.client.cfg.Hooks.Voted
	trail := h.trail
	if kind != node.Acquire {
		trail = nil
	}
	if hook == nil && trail == nil {
		return
	}
	e := VoteEvent{
		Node: h.client.nodes.Name(i), Op: kind, Names: h.lock.Names(), Owner: h.owner,
		Vote: v, Unsent: r.Unsent, At: h.client.clock.Wall(), Err: h.whyNot(kind, i, r, v),
	}
	if !r.Unsent {
		e.Took = h.client.clock.Now() - sent
	}
	fire(&h.client.reports, hook, e)
	if trail != nil {
		trail.voted(e)
	}
}

// whyNot is why a node did not grant. The mutex is held.
func (h *hold) whyNot(kind node.Kind, i int, r *node.Reply, v quorum.Vote) error {
	switch {
	case v == quorum.Granted:
		return nil
	case kind == node.Acquire && r.Outcome == node.Denied:
		return &HeldError{Name: h.lock.shown(r.Holder.Name), Owner: r.Holder.Owner, TTL: r.Holder.TTL}
	default:
		return refusalError(h.refusals.of(i))
	}
}
