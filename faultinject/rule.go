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
type Rule struct {
	// When selects the operations; nil selects all, and probes. An exchange matches if one of its operations does.
	When Predicate
	// Skip is the number of matches before the rule applies, and Times how often it then applies; 0 is without limit.
	// The third renewal is Kind(node.Renew) with a Skip of 2 and Times of 1.
	Skip, Times int
	// Do is the effect; nil for none, so that the rule only counts.
	Do Effect
	// PerOp applies the rule to the matching operations of an exchange, not to the whole exchange. Adjacent
	// operations with the same outcome stay together, and all run in their order. Skip, Times and Hits then count
	// operations.
	//
	// By default a fault concerns the connection: all operations of one exchange share it. PerOp is for faults of
	// single locks in a client that uses others at the same time, because the grouping of operations depends on
	// timing.
	PerOp bool
}

// Active is a rule on a node. Its methods are safe for concurrent use.
type Active struct {
	rule Rule
	node *Node

	once    sync.Once
	removed chan struct{}

	mu         sync.Mutex
	seeds      *rand.PCG // of the random decisions, in the order of the calls
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

// apply passes an exchange through the rule.
func (a *Active) apply(ctx context.Context, x *Exchange, next Next) {
	select {
	case <-a.removed:
		next(ctx, x)
		return
	default:
	}
	if a.rule.PerOp && len(x.Ops) > 0 {
		a.split(ctx, x, next)
		return
	}
	if a.matches(x) && a.count() {
		a.inflict(ctx, x, next)
		return
	}
	next(ctx, x)
}

// split applies the rule to runs of matching operations, each as its own exchange.
func (a *Active) split(ctx context.Context, x *Exchange, next Next) {
	hit := make([]bool, len(x.Ops))
	asked := *x
	for i, op := range x.Ops {
		asked.Rand = chance(a.draw())
		hit[i] = a.rule.When.holds(&asked, op) && a.count()
	}
	for i, j := 0, 0; i < len(hit); i = j {
		for j = i + 1; j < len(hit) && hit[j] == hit[i]; j++ {
		}
		part := x
		if i > 0 || j < len(hit) {
			part = x.Slice(i, j)
		}
		if hit[i] {
			a.inflict(ctx, part, next)
		} else {
			next(ctx, part)
		}
	}
}

// errUnanswered is the cause for operations that an effect did not answer.
var errUnanswered = errors.New("faultinject: an effect has not answered")

// inflict applies the rule's effect to an exchange.
func (a *Active) inflict(ctx context.Context, x *Exchange, next Next) {
	if a.rule.Do == nil {
		next(ctx, x)
		return
	}
	affected := *x
	affected.Rand, affected.removed = chance(a.draw()), a.removed
	affected.Fail(&node.Error{Reason: node.ErrProtocol, Err: errUnanswered}, false)
	a.rule.Do(ctx, &affected, next)
}

// matches reports whether one of the operations matches, or the call that has none. All operations get the same
// random numbers: the exchange matches by chance as a whole.
func (a *Active) matches(x *Exchange) bool {
	if a.rule.When == nil {
		return true
	}
	asked, seed := *x, a.draw()
	is := func(op node.Op) bool {
		asked.Rand = chance(seed)
		return a.rule.When(&asked, op)
	}
	if len(x.Ops) == 0 {
		return is(node.Op{})
	}
	return slices.ContainsFunc(x.Ops, is)
}

// count counts a match, and reports whether the rule applies to it.
func (a *Active) count() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen++
	if a.seen <= a.rule.Skip || a.rule.Times > 0 && a.hits >= a.rule.Times {
		return false
	}
	a.hits++
	return true
}

// draw returns a seed for random decisions.
func (a *Active) draw() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seeds.Uint64()
}
