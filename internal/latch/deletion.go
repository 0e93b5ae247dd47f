package latch

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Delete deletes the latch. If possible, all attempts are one deletion with one token: a node's
// confirmation stays valid for all of them.
func (x *Call) Delete() Outcome {
	need := x.latches.need
	var began time.Duration // when the deletion with the present token began
	propose := func() uint64 {
		began = x.latches.env.Clock.Now()
		return x.latches.env.Tokens.Propose(x.name)
	}
	token, before, begun := propose(), decision.Set(0), false
	sent := uint64(0) // the token of the last attempt
	return x.retry(func() (*round, Outcome) {
		first := sent != token
		sent = token
		r := newRound(x.latches, x.name, x.ttl, wire.LatchOp{})
		r.kind, r.deletes, r.deletedAt, r.token, r.granted = wire.Unlatch, true, began, token, before
		if begun {
			r.kind, r.ask = wire.Latch, wire.LatchOp{Exact: true, Generation: token, Void: true}
		}
		confirmed := func() bool { return r.deletedBy().Len() >= need }
		r.enough = func(*decision.LatchView) bool { return confirmed() && (!first || r.setAgain == 0) }
		return r, x.run(r, token, func(*decision.LatchView) Outcome {
			switch {
			case first && r.setAgain.Len() == len(r.last):
				// This call began the generation on no node. So another client did, with an equal token, and the
				// latch that was set in it is still to be deleted. Without the answers of all nodes, that is not
				// certain: a second deletion would delete a latch that was set after the first one.
				token, before, begun = propose(), 0, false
			case confirmed():
				return Outcome{}
			case r.refuses() && r.granted != 0 && r.latest() == token:
				// The generation has begun on a node, so any call may pass it on, and set the next latch in
				// it. The others get it too, whatever they have seen: a larger token would delete that latch.
				begun, before = true, r.granted
			case r.refuses():
				token, before, begun = propose(), 0, false
			default:
				before = r.granted
			}
			return r.short()
		})
	})
}
