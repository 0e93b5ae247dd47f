package latch

import (
	"errors"

	"github.com/quorumlock/quorumlock/node"
)

// Outcome is how a call ended.
type Outcome struct {
	Result Result
	// Count is, for OtherCount and Open, the number to which the latch is set. Chosen is set if a
	// majority of the nodes agrees on it.
	Count  int
	Chosen bool
	// Left is how many ids must still count down, for Open and for a Count that succeeded.
	Left int
	// Shortage says why too few nodes agreed, for NoQuorum.
	Shortage *Shortage
	// Stopped is set if the call ended before it had another result, and CutShort if that was in
	// the middle of a round.
	Stopped  Stop
	CutShort bool
}

// ok reports whether the call succeeded.
func (o *Outcome) ok() bool { return o.Result == Done && o.Stopped == NotStopped }

// Result is the last result of the nodes.
type Result uint8

// The results. With Done, an Outcome that was not stopped is a success.
const (
	Done Result = iota
	// NotSet: the latch is not set. Deleted: it was deleted during the call.
	NotSet
	Deleted
	// OtherCount: it is set to another number.
	OtherCount
	// NoQuorum: too few nodes agreed.
	NoQuorum
	// Open: too few ids have counted down.
	Open
)

// Stop is what ended a call early.
type Stop uint8

// The reasons to stop.
const (
	NotStopped Stop = iota
	// ByContext: the context ended. ByClose: the client was closed.
	ByContext
	ByClose
)

// Shortage says why too few nodes agreed in a round.
type Shortage struct {
	// Need of Total nodes had to agree. Agreed nodes did, and Pending nodes had not answered yet.
	Need, Total, Agreed, Pending int
	// Refusals says why the other nodes did not agree.
	Refusals []Refusal
}

// Refusal is why the node with this index did not agree.
type Refusal struct {
	Node int
	Err  error
}

// errForgotten is why the answer of a node did not count.
var errForgotten = errors.New("the node lost its memory after the latch was set, and may lack count-downs")

// forgotten is the error of node i for errForgotten.
func (r *round) forgotten(i int) error {
	return &node.Error{Node: r.env().Nodes.Name(i), Op: r.kind, Reason: node.ErrRejected, Err: errForgotten}
}

// shortage says why too few nodes agreed. Requires r.mu.
func (r *round) shortage() *Shortage {
	v, skew := r.view(), r.skew()
	s := &Shortage{Need: r.need(), Total: len(r.answers)}
	for i, a := range r.answers {
		err := r.nodes[i].err
		if c := r.confirmation; c != nil && c.errs[i] != nil {
			err = c.errs[i]
		}
		switch {
		case err != nil:
		case !a.Told:
			s.Pending++
			continue
		case !v.Member(a, skew):
			err = r.forgotten(i)
		default:
			s.Agreed++
			continue
		}
		s.Refusals = append(s.Refusals, Refusal{Node: i, Err: err})
	}
	if r.deletes {
		s.Agreed = r.deletedOn().Len()
	}
	return s
}

// short is the outcome of a round in which too few nodes agreed.
func (r *round) short() Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Outcome{Result: NoQuorum, Shortage: r.shortage()}
}

// stopped is the outcome of a call that ended while the round was under way.
func (r *round) stopped(by Stop) Outcome {
	if by == ByClose {
		return Outcome{Stopped: by}
	}
	o := r.short()
	o.Stopped, o.CutShort = by, true
	return o
}
