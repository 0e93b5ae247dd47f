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
	useful bool
	// tokenRejected is set if a node has refused the token because of its clock.
	tokenRejected bool
	// freeAfter is when enough nodes can be expected to be free even if nobody
	// releases.
	freeAfter time.Duration
}

// attempt is one round: it asks all nodes and returns as soon as their votes decide.
// The votes of the slower ones are folded into the lease later, or undone.
func (l *Lock) attempt(ctx context.Context, w *waiter) (*grant, retry, error) {
	l, err := l.pickSlots(w)
	if err != nil {
		return nil, retry{}, err
	}
	h := newGrant(l, w)
	h.trace = l.client.traceFrom(ctx)
	h.start(l.client.now(w))
	select {
	case <-h.decided:
	case <-ctx.Done():
		h.rollBack()
		return nil, retry{}, h.cutShortError()
	case <-l.client.quit:
		h.rollBack()
		return nil, retry{}, ErrClosed
	}
	if h.becomeHeld() {
		return h, retry{}, nil
	}
	h.rollBack()
	again, err := h.lossError()
	return nil, again, err
}

// errCutShort marks what an attempt had come to when its context ended.
var errCutShort = errors.New("the attempt was cut short")

// cutShortError says how far the round had come.
func (h *grant) cutShortError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Errorf("%w: %w", h.noQuorumError("acquire", h.proposal.Taken()), errCutShort)
}

// gaveUpError is the error of an acquisition whose context has ended.
func gaveUpError(err, why error) error {
	return fmt.Errorf("%w: gave up: %w", err, why)
}

// lossError says why the round was lost, and what that means for another.
func (h *grant) lossError() (retry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	again := retry{useful: !h.permanentlyRefused(), tokenRejected: h.tokenTooFar(), freeAfter: h.expectedFreeAfter()}
	votes := h.proposal.Votes()
	if votes.Result() == quorum.Lost && votes.Denied() > 0 && votes.Unknown() <= h.claims.Nodes()-h.lock.need {
		// Enough nodes answer: what stands in the way is who holds it there.
		return again, h.heldError()
	}
	err := h.noQuorumError("acquire", h.proposal.Taken())
	err.Late = h.proposal.Taken().Result() == quorum.Won
	for i := range h.client.nodes.Len() {
		if h.proposal.Taken().Vote(i) == quorum.Denied {
			err.Nodes = append(err.Nodes, NodeError{Node: h.client.nodes.Name(i), Err: errTokenNotTaken})
		}
	}
	return again, err
}

// errTokenNotTaken is why the grant of a node did not count.
var errTokenNotTaken = errors.New("it granted the lock, but knows a fencing token as large as ours")

// permanentlyRefused reports whether so many nodes reject this call for good that no attempt can
// succeed.
func (h *grant) permanentlyRefused() bool {
	permanent := 0
	for _, r := range h.refusals.all() {
		var nodeErr *node.Error
		if !errors.As(r.Err, &nodeErr) {
			continue
		}
		// A block of tokens reaches further than one does that is the time.
		timely := h.proposal.End() == h.proposal.Token() && h.client.tokenClock.isCurrent(h.proposal.Token())
		if nodeErr.Permanent() || nodeErr.Reason == node.ErrClock && timely { //nolint:errorlint // a reason is never wrapped
			permanent++
		}
	}
	return permanent > h.claims.Nodes()-h.lock.need
}

// tokenTooFar reports whether a node has refused the token because of its clock.
func (h *grant) tokenTooFar() bool {
	for _, r := range h.refusals.all() {
		if errors.Is(r.Err, node.ErrClock) {
			return true
		}
	}
	return false
}

// expectedFreeAfter is how long, by what the denials said, until a quorum is free.
func (h *grant) expectedFreeAfter() time.Duration {
	told := make([]time.Duration, 0, h.claims.Nodes())
	for _, r := range h.refusals.all() {
		if r.Outcome == node.Denied {
			told = append(told, holderTTL(r.Holder))
		}
	}
	return quorum.FreeAfter(told, h.claims.Nodes()-len(told), h.lock.need)
}

// heldError names the owner that denied on most nodes.
func (h *grant) heldError() error {
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
			if holderTTL(r.Holder) > holderTTL(most) {
				most = r.Holder
			}
		case n > votes[most.Owner], most.Owner == "":
			most = r.Holder
		}
	}
	return &HeldError{Name: h.lock.displayName(most.Name), Owner: most.Owner, TTL: most.TTL, permits: h.lock.slots != nil}
}

// holderTTL is how long a claim lasts; a key without expiry lasts for ever.
func holderTTL(h node.Holder) time.Duration {
	if h.TTL == node.NoExpiry {
		return never
	}
	return h.TTL
}
