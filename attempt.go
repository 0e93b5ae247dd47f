package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// retry says what to expect of another attempt.
type retry struct {
	worthwhile bool
	// tokenTooFar is set if a node has refused the token because of its clock.
	tokenTooFar bool
	// freeAfter is when enough nodes can be expected to be free even if nobody
	// releases.
	freeAfter time.Duration
}

// attempt is one round: it asks all nodes and returns as soon as their votes decide.
// The votes of the slower ones are folded into the lease later, or undone.
func (l *Lock) attempt(ctx context.Context, w *waiter) (*hold, retry, error) {
	l, err := l.named(w)
	if err != nil {
		return nil, retry{}, err
	}
	h := newHold(l, w)
	h.trail = l.client.trailIn(ctx)
	h.ask(l.client.now(w))
	select {
	case <-h.decided:
	case <-ctx.Done():
		h.abandon()
		return nil, retry{}, h.cutShort()
	case <-l.client.quit:
		h.abandon()
		return nil, retry{}, ErrClosed
	}
	if h.win() {
		return h, retry{}, nil
	}
	h.abandon()
	again, err := h.verdict()
	return nil, again, err
}

// errCutShort marks what an attempt had come to when its context ended.
var errCutShort = errors.New("the attempt was cut short")

// cutShort says how far the round had come.
func (h *hold) cutShort() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Errorf("%w: %w", h.noQuorum("acquire", h.proposal.Taken()), errCutShort)
}

// gaveUp is the error of an acquisition whose context has ended.
func gaveUp(err, why error) error {
	return fmt.Errorf("%w: gave up: %w", err, why)
}

// verdict says why the round was lost, and what that means for another.
func (h *hold) verdict() (retry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	again := retry{worthwhile: !h.hopeless(), tokenTooFar: h.tokenTooFar(), freeAfter: h.freeAfter()}
	votes := h.proposal.Votes()
	if votes.Result() == quorum.Lost && votes.Denied() > 0 && votes.Unknown() <= h.claims.Nodes()-h.lock.need {
		// Enough nodes answer: what stands in the way is who holds it there.
		return again, h.heldError()
	}
	err := h.noQuorum("acquire", h.proposal.Taken())
	err.Late = h.proposal.Taken().Result() == quorum.Won
	for i := range h.client.nodes.Len() {
		if h.proposal.Taken().Vote(i) == quorum.Denied {
			err.Nodes = append(err.Nodes, NodeError{Node: h.client.nodes.Name(i), Err: errUntaken})
		}
	}
	return again, err
}

// errUntaken is why the grant of a node did not count.
var errUntaken = errors.New("it granted the lock, but knows a fencing token as large as ours")

// hopeless reports whether so many nodes reject this call for good that no attempt can
// succeed.
func (h *hold) hopeless() bool {
	permanent := 0
	for _, r := range h.refusals.all() {
		var nodeErr *node.Error
		if !errors.As(r.Err, &nodeErr) {
			continue
		}
		// A block of tokens reaches further than one does that is the time.
		timely := h.proposal.End() == h.proposal.Token() && h.client.tokens.timely(h.proposal.Token())
		if nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && timely { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > h.claims.Nodes()-h.lock.need
}

// tokenTooFar reports whether a node has refused the token because of its clock.
func (h *hold) tokenTooFar() bool {
	for _, r := range h.refusals.all() {
		if errors.Is(r.Err, node.ErrClock) {
			return true
		}
	}
	return false
}

// freeAfter is how long, by what the denials said, until a quorum is free.
func (h *hold) freeAfter() time.Duration {
	told := make([]time.Duration, 0, h.claims.Nodes())
	for _, r := range h.refusals.all() {
		if r.Outcome == node.Denied {
			told = append(told, lifetime(r.Holder))
		}
	}
	return quorum.FreeAfter(told, h.claims.Nodes()-len(told), h.lock.need)
}

// heldError names the owner that denied on most nodes.
func (h *hold) heldError() error {
	votes := make(map[string]int)
	var most node.Holder
	for _, r := range h.refusals.all() {
		if r.Outcome != node.Denied {
			continue
		}
		if r.Holder.Owner == "" && most.Owner != "" {
			continue // it is left to another waiter there, and others know more
		}
		votes[r.Holder.Owner]++
		switch n := votes[r.Holder.Owner]; {
		case most.Owner == r.Holder.Owner:
			if lifetime(r.Holder) > lifetime(most) {
				most = r.Holder
			}
		case n > votes[most.Owner], most.Owner == "":
			most = r.Holder
		}
	}
	return &HeldError{Name: h.lock.shown(most.Name), Owner: most.Owner, TTL: most.TTL, permits: h.lock.slots != nil}
}

// lifetime is how long a claim lasts; a key without expiry lasts for ever.
func lifetime(h node.Holder) time.Duration {
	if h.TTL == node.NoExpiry {
		return never
	}
	return h.TTL
}
