package faultinject

import (
	"slices"

	"github.com/quorumlock/quorumlock/node"
)

// Predicate says of an operation of an exchange whether it is one that a [Rule] is for. A
// nil Predicate says so of all. A probe is asked for once, with an op whose Kind is 0, and
// so is a call without operations.
//
// As it is asked for each operation, Kind(node.Renew).And(Lock("a")) is about renewals of
// the lock a, not about exchanges in which something is renewed and a occurs; and
// Kind(node.Renew).Not() is about operations that are no renewals, which may share an
// exchange with some.
//
// It must not change anything, and depend on nothing but what it is given; for chance there
// is the Rand of the exchange. What must be counted, a Rule counts.
type Predicate func(x *Exchange, op node.Op) bool

// And is about operations that are what both are about.
func (p Predicate) And(q Predicate) Predicate {
	return func(x *Exchange, op node.Op) bool { return p.holds(x, op) && q.holds(x, op) }
}

// Or is about operations that are what at least one of both is about.
func (p Predicate) Or(q Predicate) Predicate {
	return func(x *Exchange, op node.Op) bool { return p.holds(x, op) || q.holds(x, op) }
}

// Not is about the other operations, probes included.
func (p Predicate) Not() Predicate {
	return func(x *Exchange, op node.Op) bool { return !p.holds(x, op) }
}

func (p Predicate) holds(x *Exchange, op node.Op) bool { return p == nil || p(x, op) }

// Kind is about operations of one of the kinds. No probe is.
func Kind(kinds ...node.Kind) Predicate {
	return func(_ *Exchange, op node.Op) bool { return op.Kind != 0 && slices.Contains(kinds, op.Kind) }
}

// Lock is about operations on at least one of the locks.
func Lock(names ...string) Predicate {
	return func(_ *Exchange, op node.Op) bool {
		return slices.ContainsFunc(op.Names, func(name string) bool { return slices.Contains(names, name) })
	}
}

// Owner is about operations of one of the owners, as quorumlock.Lease.Owner tells them. No
// probe is.
func Owner(owners ...string) Predicate {
	return func(_ *Exchange, op node.Op) bool { return op.Kind != 0 && slices.Contains(owners, op.Owner) }
}

// Probing is about probes: a client sends them to a node that failed, before anything else.
func Probing() Predicate {
	return func(x *Exchange, _ node.Op) bool { return x.Probe }
}

// Nth is about the calls of the node with these numbers, from 1. To count only some of the
// calls, see Skip and Times of a [Rule].
func Nth(numbers ...int) Predicate {
	return func(x *Exchange, _ node.Op) bool { return slices.Contains(numbers, x.N) }
}

// From is about the nth call of the node, from 1, and all later ones.
func From(n int) Predicate {
	return func(x *Exchange, _ node.Op) bool { return x.N >= n }
}

// Until is about the first n calls of the node.
func Until(n int) Predicate {
	return func(x *Exchange, _ node.Op) bool { return x.N <= n }
}

// Chance has probability p, once for each exchange, or for each operation of a rule that
// is PerOp. See [Seed].
func Chance(p float64) Predicate {
	return func(x *Exchange, _ node.Op) bool { return x.Rand.Float64() < p }
}
