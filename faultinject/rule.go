package faultinject

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
)

// Rule is an effect and its conditions. It has no state: one Rule can be added to many nodes, and counts and draws
// for each of them separately.
//
// A fault concerns the connection, so it hits all operations of one exchange.
type Rule struct {
	// When selects the operations; nil selects all, and probes. An exchange matches if one of its operations does.
	When Predicate
	// Chance is the probability with which a match counts; 0 means always. See [Seed].
	Chance float64
	// Skip is the number of matches before the rule applies, and Times how often it then applies; 0 is without limit.
	// The third renewal is Kind(node.Renew) with a Skip of 2 and Times of 1.
	Skip, Times int
	// Do is the effect; nil for none, so that the rule only counts.
	Do Effect
}

// Predicate reports whether a [Rule] applies to an operation of an exchange. A nil Predicate applies to all. It is
// called for each operation, so Kind(node.Renew).And(Lock("a")) selects renewals of the lock a, not exchanges that
// contain a renewal and an operation on a. It is called once for a probe, with an op whose Kind is 0, and so it is for
// a call without operations.
//
// A Predicate must not change anything, and must depend only on its arguments: Rule counts and draws.
type Predicate func(x *Exchange, op node.Op) bool

// And selects operations that both predicates select.
func (p Predicate) And(q Predicate) Predicate {
	return func(x *Exchange, op node.Op) bool { return (p == nil || p(x, op)) && (q == nil || q(x, op)) }
}

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

// Active is a rule on a node. Its methods are safe for concurrent use.
type Active struct {
	rule Rule
	node *Node

	once    sync.Once
	removed chan struct{}

	mu         sync.Mutex
	random     *rand.Rand
	seen, hits int
}

// Remove removes the rule from the node, and frees calls that hang because of it or wait at its gate; they run. Calls
// that it duplicated or postponed still run. Removing twice is harmless.
func (a *Active) Remove() {
	a.once.Do(func() {
		a.node.drop(a)
		close(a.removed)
	})
}

// Hits returns how often the rule has been applied.
func (a *Active) Hits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits
}

// errUnanswered is the cause for operations that an effect did not answer.
var errUnanswered = errors.New("faultinject: an effect has not answered")

// apply passes an exchange through the rule.
func (a *Active) apply(ctx context.Context, x *Exchange, next Next) {
	if !a.hit(x) || a.rule.Do == nil {
		next(ctx, x)
		return
	}
	affected := *x
	affected.removed = a.removed
	affected.Fail(&node.Error{Reason: node.ErrProtocol, Err: errUnanswered}, false)
	a.rule.Do(ctx, &affected, next)
}

// hit reports whether the rule applies to an exchange, and counts it.
func (a *Active) hit(x *Exchange) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.removed:
		return false
	default:
	}
	if !a.rule.matches(x) || a.rule.Chance > 0 && a.random.Float64() >= a.rule.Chance {
		return false
	}
	a.seen++
	if a.seen <= a.rule.Skip || a.rule.Times > 0 && a.hits >= a.rule.Times {
		return false
	}
	a.hits++
	return true
}

// matches reports whether one of the operations matches, or the call that has none.
func (r *Rule) matches(x *Exchange) bool {
	switch {
	case r.When == nil:
		return true
	case len(x.Ops) == 0:
		return r.When(x, node.Op{})
	}
	return slices.ContainsFunc(x.Ops, func(op node.Op) bool { return r.When(x, op) })
}
