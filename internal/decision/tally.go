package decision

import (
	"fmt"
	"iter"
	"math"
	"math/bits"

	"github.com/quorumlock/quorumlock/quorum"
)

// Vote is the answer of one node in one round.
type Vote uint8

const (
	// Missing means that the node has not answered yet. It is the zero Vote.
	Missing Vote = iota
	// Granted means that the node confirmed the operation.
	Granted
	// Denied means that the node refused, and gave nothing.
	Denied
	// Unknown means a timeout, a broken connection or an error reply: the operation may have
	// happened. It never counts as a grant, and never proves that another owner holds the lock.
	Unknown
)

var voteNames = [...]string{Missing: "missing", Granted: "granted", Denied: "denied", Unknown: "unknown"}

// String returns the name of the vote in lower case.
func (v Vote) String() string {
	if int(v) >= len(voteNames) {
		return fmt.Sprintf("vote(%d)", uint8(v))
	}
	return voteNames[v]
}

// Result is the outcome of a round.
type Result uint8

const (
	// Pending means that the missing votes can still decide it either way. It is the zero Result.
	Pending Result = iota
	// Won means that enough nodes granted.
	Won
	// Lost means that too few nodes are left that could still grant.
	Lost
)

// Set is a set of nodes, by index below [quorum.MaxNodes]. The zero value is empty.
type Set uint64

// Has reports whether node i is in the set.
func (s Set) Has(i int) bool { return s&(1<<i) != 0 }

// With returns the set with node i in it.
func (s Set) With(i int) Set { return s | 1<<i }

// Without returns the set without node i.
func (s Set) Without(i int) Set { return s &^ (1 << i) }

// Len returns how many nodes are in the set.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// All yields the nodes of the set in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := uint64(s); rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}

// Tally counts the votes of one round. It is a value without pointers: a copy
// is a snapshot, and nothing here allocates but String. It is not safe for
// concurrent use. The zero Tally has no nodes and is [Lost].
type Tally struct {
	granted, denied, unknown uint64 // one bit for each node, set in at most one of them
	nodes, need              uint8
}

// NewTally returns a tally for a round over n nodes, of which need must grant. A need above n is
// allowed, and lost from the start. It panics unless n is in [0, MaxNodes] and need is at least 1:
// a round with need 0 could be won without a grant.
func NewTally(n, need int) Tally {
	if n < 0 || n > quorum.MaxNodes || need < 1 {
		panic(fmt.Sprintf("quorum: no tally for %d of %d nodes", need, n))
	}
	return Tally{nodes: uint8(n), need: uint8(min(need, math.MaxUint8))} // no need that is above n can be met
}

// Record takes the vote of node i, counted from 0. Only the first vote of a node counts. Record
// returns false and changes nothing if i has already voted or is out of range, or if v is [Missing]
// or no vote at all.
func (t *Tally) Record(i int, v Vote) bool {
	if i < 0 || i >= t.Nodes() || t.Vote(i) != Missing {
		return false
	}
	bit := uint64(1) << i
	switch v {
	case Granted:
		t.granted |= bit
	case Denied:
		t.denied |= bit
	case Unknown:
		t.unknown |= bit
	default:
		return false
	}
	return true
}

// Vote returns the vote of node i, [Missing] if it has none or there is no
// such node.
func (t *Tally) Vote(i int) Vote {
	if i < 0 || i >= t.Nodes() {
		return Missing
	}
	bit := uint64(1) << i
	switch {
	case t.granted&bit != 0:
		return Granted
	case t.denied&bit != 0:
		return Denied
	case t.unknown&bit != 0:
		return Unknown
	default:
		return Missing
	}
}

func (t *Tally) nodesWith(v Vote) (nodes Set) {
	for i := range t.Nodes() {
		if t.Vote(i) == v {
			nodes = nodes.With(i)
		}
	}
	return nodes
}

// Result decides as early as it can: [Won] at the last needed grant, [Lost]
// as soon as the denials and the unknowns leave too few nodes to reach it.
// Once it is not [Pending] no further vote changes it.
func (t *Tally) Result() Result {
	switch {
	case t.need > 0 && t.Granted() >= t.Need():
		return Won
	case t.Granted()+t.Missing() < t.Need() || t.need == 0:
		return Lost
	default:
		return Pending
	}
}

// Blocked reports whether the denials alone keep the round from being won. Other owners then hold
// enough nodes: one holder, or several in a split vote. Unknown votes do not count, as they prove
// nothing about another holder. A round that is lost but not blocked lacked answers.
func (t *Tally) Blocked() bool { return t.Denied() > max(t.Nodes()-t.Need(), 0) }

// Granted returns how many nodes granted.
func (t *Tally) Granted() int { return bits.OnesCount64(t.granted) }

// Denied returns how many nodes denied.
func (t *Tally) Denied() int { return bits.OnesCount64(t.denied) }

// Unknown returns how many nodes left their answer unknown.
func (t *Tally) Unknown() int { return bits.OnesCount64(t.unknown) }

// Missing returns how many nodes have not voted.
func (t *Tally) Missing() int {
	return t.Nodes() - bits.OnesCount64(t.granted|t.denied|t.unknown)
}

// Need returns how many grants win the round.
func (t *Tally) Need() int { return int(t.need) }

// Nodes returns how many nodes may vote.
func (t *Tally) Nodes() int { return int(t.nodes) }

// String describes the tally for the output of a failed test, like
// "3 of 5 needed: 2 granted, 1 denied, 1 unknown, 1 missing".
func (t *Tally) String() string {
	return fmt.Sprintf("%d of %d needed: %d granted, %d denied, %d unknown, %d missing",
		t.need, t.nodes, t.Granted(), t.Denied(), t.Unknown(), t.Missing())
}
