package quorumlock

import (
	"errors"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// evicted says why the denials of a round of renewal end the lease, or nil if they do not. To
// end a lease early is always safe, and its holder learns of it a good part of a TTL earlier.
// The mutex is held.
//
// Any other denial, and any number of unknown answers, is not the loss of the lease: the
// denial may be of a contender in passing. See docs/adr/0007 and 0036.
func (r *renewal) evicted() error {
	h := r.hold
	if r.tally.Blocked() && h.forcedOff() {
		return h.lostTo(LossForced, "it was released by force")
	}
	if owner, ok := quorum.Usurper(r.holders()); ok {
		return h.lostToOwner(owner)
	}
	return nil
}

// evictedBy is evicted for a vote that came after the round was decided. The mutex is held.
func (r *renewal) evictedBy(reply *node.Reply) error {
	h := r.hold
	if reply.Outcome != node.Denied || h.client.clock.Now() >= h.validUntil {
		return nil
	}
	return r.evicted()
}

// holders are the owners that nodes named when they denied this round. The mutex is held.
func (r *renewal) holders() []string {
	owners := make([]string, r.tally.Nodes())
	for i, reply := range r.hold.refusals.all() {
		if r.tally.Vote(i) == quorum.Denied && reply.Outcome == node.Denied && r.hold.isFollowedBy(&reply.Holder) {
			owners[i] = reply.Holder.Owner
		}
	}
	return owners
}

// isFollowedBy reports whether the holder on a node came after this owner: the node then knows a
// larger token. A former holder, which a late renewal has put back, came before. Readers stand
// as one in a denial, which then names no single owner.
func (h *hold) isFollowedBy(other *node.Holder) bool {
	return other.Owner != h.owner && other.Owner != node.Readers && other.Token > h.proposal.End()
}

// forcedOff reports whether a node has a tombstone for this owner. The mutex is held.
func (h *hold) forcedOff() bool {
	for _, r := range h.refusals.all() {
		if errors.Is(refusalError(r), errForcedOff) {
			return true
		}
	}
	return false
}

// lostToOwner is the error for a lease that another owner has taken. The mutex is held.
func (h *hold) lostToOwner(owner string) error {
	return takenBy(owner, &LostError{Names: h.lock.Names(), Owner: h.owner, Nodes: h.nodeErrors()})
}

// takenBy has an error say who took the lock.
func takenBy(owner string, e *LostError) *LostError {
	e.Cause, e.TakenBy = LossTaken, owner
	e.Reason = "another owner has it on a majority of the nodes: " + DescribeOwner(owner)
	return e
}
