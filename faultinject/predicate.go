package faultinject

import (
	"slices"

	"github.com/quorumlock/quorumlock/node"
)

// Predicate reports whether a [Rule] applies to an operation of an exchange. A nil Predicate applies to all. It is
// called once for a probe, with an op whose Kind is 0, and so it is for a call without operations.
//
// It is called for each operation. So Kind(node.Renew).And(Lock("a")) selects renewals of the lock a, not exchanges
// that contain a renewal and an operation on a. Kind(node.Renew).Not() selects operations that are no renewals, which
// may share an exchange with renewals.
//
// A Predicate must not change anything, and must depend only on its arguments; use the Rand of the exchange for
// random decisions. Counting is up to the Rule.
type Predicate func(x *Exchange, op node.Op) bool

// And selects operations that both predicates select.
func (p Predicate) And(q Predicate) Predicate {
	return func(x *Exchange, op node.Op) bool { return p.holds(x, op) && q.holds(x, op) }
}

// Or selects operations that at least one of both predicates selects.
func (p Predicate) Or(q Predicate) Predicate {
	return func(x *Exchange, op node.Op) bool { return p.holds(x, op) || q.holds(x, op) }
}

// Not selects all other operations, including probes.
func (p Predicate) Not() Predicate {
	return func(x *Exchange, op node.Op) bool { return !p.holds(x, op) }
}

func (p Predicate) holds(x *Exchange, op node.Op) bool { return p == nil || p(x, op) }

// Kind selects operations of one of the kinds, but no probe.
func Kind(kinds ...node.Kind) Predicate {
	return func(_ *Exchange, op node.Op) bool { return op.Kind != 0 && slices.Contains(kinds, op.Kind) }
}

// Lock selects operations on at least one of the locks.
func Lock(names ...string) Predicate {
	return func(_ *Exchange, op node.Op) bool {
		return slices.ContainsFunc(op.Names, func(name string) bool { return slices.Contains(names, name) })
	}
}

// Owner selects operations of one of the owners, as in quorumlock.Lease.Owner, but no probe.
func Owner(owners ...string) Predicate {
	return func(_ *Exchange, op node.Op) bool { return op.Kind != 0 && slices.Contains(owners, op.Owner) }
}

// Probing selects probes: a client sends one to a node that failed, before anything else.
func Probing() Predicate {
	return func(x *Exchange, _ node.Op) bool { return x.Probe }
}

// Nth selects the calls of the node with these numbers, from 1. To count only some of the calls, see Skip and Times
// of a [Rule].
func Nth(numbers ...int) Predicate {
	return func(x *Exchange, _ node.Op) bool { return slices.Contains(numbers, x.N) }
}

// Chance selects with probability p, once for each exchange, or for each operation if the rule is PerOp. See [Seed].
func Chance(p float64) Predicate {
	return func(x *Exchange, _ node.Op) bool { return x.Rand.Float64() < p }
}
