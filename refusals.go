package quorumlock

import (
	"errors"
	"iter"

	"github.com/quorumlock/quorumlock/node"
)

// refusals are the last answers of those nodes whose last answer was no confirmation, in the
// order of the nodes. Most holds have none, and many have one, of a node that is down or slow.
type refusals struct{ first *refusal }

type refusal struct {
	reply node.Reply
	lane  int
	next  *refusal
}

// all are all of them, each with the index of its node.
func (rs *refusals) all() iter.Seq2[int, *node.Reply] {
	return func(yield func(int, *node.Reply) bool) {
		for r := rs.first; r != nil && yield(r.lane, &r.reply); r = r.next {
		}
	}
}

// of is that of a node, or nil.
func (rs *refusals) of(i int) *node.Reply {
	if r := *rs.at(i); r != nil && r.lane == i {
		return &r.reply
	}
	return nil
}

// at is where that of a node is, or would be.
func (rs *refusals) at(i int) **refusal {
	p := &rs.first
	for *p != nil && (*p).lane < i {
		p = &(*p).next
	}
	return p
}

// set keeps what a node refused with.
func (rs *refusals) set(i int, r *node.Reply) {
	p := rs.at(i)
	if *p == nil || (*p).lane != i {
		*p = &refusal{lane: i, next: *p}
	}
	(*p).reply = *r
}

// forgive forgets what a node refused with, as it does not any more.
func (rs *refusals) forgive(i int) {
	if p := rs.at(i); *p != nil && (*p).lane == i {
		*p = (*p).next
	}
}

// nodeErrors is what the nodes that did not confirm said last. The mutex is held.
func (h *hold) nodeErrors() []NodeError {
	var errs []NodeError
	for i, r := range h.refusals.all() {
		if err := refusalError(r); err != nil {
			errs = append(errs, NodeError{Node: h.client.nodes.Name(i), Err: err})
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
