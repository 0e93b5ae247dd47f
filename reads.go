package quorumlock

import (
	"errors"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/quorum"
)

// A reader's round of acquisition differs from a writer's in the token. It proposes none: the
// nodes tell the largest that they know, and it acts under one that is as large as that of
// every writer before. A majority has to have it when the round is won, so that no reader
// after it acts under a smaller one: mostly it has, and else the reader writes it back.

// errNoFence is for a node that does not do what readers need.
var errNoFence = errors.New("it granted a reader the lock, and told no fencing token")

// recount finds, for a reader, the token that it can act under by what the nodes have told, and
// which of them have it.
func (h *hold) recount() {
	var buf [quorum.MaxNodes]uint64
	told := buf[:0]
	for i := range h.claims.Nodes() {
		if h.round.Vote(i) == quorum.Granted {
			told = append(told, h.fences[i])
		}
	}
	n := h.claims.Nodes()
	// Of a writer it is certain only that a majority has its token.
	token := quorum.ReadToken(told, n, quorum.Majority().Need(n))
	if len(told) >= h.lock.need && (h.shared == 0 || token < h.shared) {
		h.shared = token
	}
	h.taken = quorum.NewTally(n, h.lock.need)
	for i := range h.claims.Nodes() {
		h.taken.Record(i, h.has(i))
	}
}

// has is the vote of a node on the token that a reader acts under: whether it keeps one as
// large, or would if it were asked to.
func (h *hold) has(i int) quorum.Vote {
	bit := uint64(1) << i
	switch vote := h.round.Vote(i); {
	case vote == quorum.Missing, vote == quorum.Granted && h.shared == 0:
		return quorum.Missing
	case vote != quorum.Granted:
		return quorum.Unknown
	case h.fences[i] >= h.shared:
		return quorum.Granted
	case h.failed&bit != 0:
		return quorum.Unknown
	case h.out&bit != 0:
		return quorum.Missing
	default:
		return quorum.Denied
	}
}

// writeBack has the nodes that granted, and know smaller tokens only, keep the one that the
// reader acts under. The mutex is held.
func (h *hold) writeBack() {
	h.proposals++
	untaken := h.taken
	v := dispatch.NewCalls(h.client.nodes.Len(), h.acquisition())
	for i := range h.client.nodes.Len() {
		if untaken.Vote(i) != quorum.Denied {
			continue
		}
		if h.sendTo(i, v); h.over() {
			return
		}
	}
	h.recount()
}
