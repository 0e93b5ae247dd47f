package faultinject

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/node"
)

// Rule says what happens when. It has no state: one Rule can be added to many nodes, and
// counts and draws for each of them on its own.
type Rule struct {
	// When says which operations the rule is for; nil: all, and probes. An exchange
	// matches if one of its operations does.
	When Predicate
	// Skip lets so many matches pass before the rule is applied, and Times is how often it
	// is applied then; 0 is without limit. The third renewal is Kind(node.Renew) with a
	// Skip of 2 and 1 for Times.
	Skip, Times int
	// Do is what happens; nil: nothing, the rule just counts.
	Do Effect
	// PerOp applies the rule to those operations of an exchange that match, not to the
	// exchange as a whole. Operations that stand next to each other and are both affected,
	// or both not, stay together; what is left of the exchange runs in its order around
	// them. Skip, Times and Hits then count operations.
	//
	// By default a fault is one of the connection: all that is sent together has one fate.
	// PerOp is for faults of single locks in a client that uses others at the same time,
	// as what travels together there is a matter of timing.
	PerOp bool
}

// Active is a rule on a node. Its methods are safe for concurrent use.
type Active struct {
	rule Rule
	node *Node
	// number tells the rules of a node apart: it is that of its addition, from 1.
	number int

	once    sync.Once
	removed chan struct{}

	mu         sync.Mutex
	seen, hits int
}

// Remove takes the rule off the node, and frees what it holds: what hangs because of it, or
// waits at its gate, runs. What it has doubled or postponed runs all the same. Removing it
// twice is harmless.
func (a *Active) Remove() {
	a.once.Do(func() {
		a.node.drop(a)
		close(a.removed)
	})
}

// Hits is how often the rule has been applied.
func (a *Active) Hits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits
}

// apply has an exchange go through the rule.
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

// split applies the rule to runs of operations that match, each an exchange of its own.
func (a *Active) split(ctx context.Context, x *Exchange, next Next) {
	hit := make([]bool, len(x.Ops))
	asked := *x
	for i, op := range x.Ops {
		asked.Rand = chance(a.fate(mix(x.fate, uint64(i))))
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

// errUnanswered is the cause of what an effect has left as it was.
var errUnanswered = errors.New("faultinject: an effect has not answered")

// inflict has the rule's effect on an exchange.
func (a *Active) inflict(ctx context.Context, x *Exchange, next Next) {
	if a.rule.Do == nil {
		next(ctx, x)
		return
	}
	affected := *x
	affected.Rand, affected.removed = chance(a.fate(mix(x.fate, ofEffect))), a.removed
	affected.Fail(&node.Error{Reason: node.ErrProtocol, Err: errUnanswered}, false)
	a.rule.Do(ctx, &affected, next)
}

// matches reports whether one of the operations matches, or the call that has none. Each
// is asked for with the same chance: the exchange as a whole has it or not.
func (a *Active) matches(x *Exchange) bool {
	if a.rule.When == nil {
		return true
	}
	asked := *x
	is := func(op node.Op) bool {
		asked.Rand = chance(a.fate(x.fate))
		return a.rule.When(&asked, op)
	}
	if len(x.Ops) == 0 {
		return is(node.Op{})
	}
	return slices.ContainsFunc(x.Ops, is)
}

// count counts a match, and reports whether the rule is applied to it.
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

// fate is what a fate of an exchange comes to for this rule.
func (a *Active) fate(of uint64) uint64 { return mix(of, uint64(a.number)) }
