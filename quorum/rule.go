// Package quorum has the rule of a lock: how many of its nodes must grant it.
package quorum

import "fmt"

// MaxNodes is the largest number of nodes that a rule supports. A [decision.Tally] keeps one bit for each.
const MaxNodes = 64

type kind uint8

const (
	unset kind = iota
	majority
	all
	atLeast
)

// Rule says how many of N nodes must grant a lock. It is a comparable value. The zero Rule works as
// [Majority] does, but differs from it, so that options can tell an unset rule.
//
// Every rule needs more than half of the nodes. Two sets of that size share a node, and one node
// never grants a lock twice. Mutual exclusion rests on this alone.
type Rule struct {
	kind kind
	q    int32 // only with atLeast
}

// Majority is the rule of RedLock: N/2+1 nodes. The lock survives the loss of all other nodes.
func Majority() Rule { return Rule{kind: majority} }

// All is the rule of MultiLock: every node.
func All() Rule { return Rule{kind: all} }

// AtLeast is the rule of a fixed number of nodes. With more than a majority, leases survive the
// unnoticed memory loss of a node, at the price of availability.
func AtLeast(q int) Rule { return Rule{kind: atLeast, q: int32(max(-1, min(q, MaxNodes+1)))} }

// Need returns how many of n nodes must grant. It is meaningful only if
// [Rule.Validate] accepts n.
func (r Rule) Need(n int) int {
	switch r.kind {
	case all:
		return n
	case atLeast:
		return int(r.q)
	default:
		return n/2 + 1
	}
}

// Validate reports whether the rule can be used with n nodes: 1 <= n <= [MaxNodes], and n/2 < need
// <= n.
func (r Rule) Validate(n int) error {
	q := r.Need(n)
	switch {
	case n < 1:
		return fmt.Errorf("quorum: unusable rule: %s of %d nodes: there must be at least one node", r, n)
	case n > MaxNodes:
		return fmt.Errorf("quorum: unusable rule: %s of %d nodes: there may be at most %d nodes", r, n, MaxNodes)
	case q <= n/2:
		return fmt.Errorf("quorum: unusable rule: %s of %d nodes: exclusion needs a majority, %d or more", r, n, n/2+1)
	case q > n:
		return fmt.Errorf("quorum: unusable rule: %s of %d nodes: there are not that many nodes", r, n)
	}
	return nil
}

// String returns "majority", "all" or "at least 4".
func (r Rule) String() string {
	switch r.kind {
	case all:
		return "all"
	case atLeast:
		return fmt.Sprintf("at least %d", r.q)
	default:
		return "majority"
	}
}
