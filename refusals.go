package quorumlock

import (
	"errors"

	"github.com/quorumlock/quorumlock/node"
)

func (h *hold) refuse(i int, r *node.Reply) {
	if h.refusals == nil {
		h.refusals = make([]node.Reply, len(h.claims))
	}
	h.refusals[i] = *r
}

// forgive forgets what nodes refused with, once none of them does any more.
func (h *hold) forgive() {
	for _, r := range h.refusals {
		if r.Outcome != node.Unknown || r.Err != nil {
			return
		}
	}
	h.refusals = nil
}

// nodeErrors is what the nodes that did not confirm said last. The mutex is held.
func (h *hold) nodeErrors() []NodeError {
	var errs []NodeError
	for i := range h.refusals {
		if err := refusalError(&h.refusals[i]); err != nil {
			errs = append(errs, NodeError{Node: h.client.lanes[i].node.Name(), Err: err})
		}
	}
	return errs
}

// errForcedOff is what a node says whose lock was released by force.
var errForcedOff = errors.New("released by force")

// refusalError is the reason in a node's answer; nil for a confirmation.
func refusalError(r *node.Reply) error {
	switch {
	case r.Outcome == node.Denied && r.Holder.Owner == "":
		return errForcedOff
	case r.Outcome == node.Denied:
		return &HeldError{Name: r.Holder.Name, Owner: r.Holder.Owner, TTL: r.Holder.TTL}
	default:
		return r.Err
	}
}
