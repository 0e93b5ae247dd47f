package quorumlock

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// joinPart is one name of a lock that is joined.
type joinPart struct {
	// name, kind and nodes say which it is, in any process: kind is that of locks that exclude
	// each other, nodes the names of the nodes.
	name, kind, nodes string
	// take takes it, or tries to.
	take func(ctx context.Context, wait bool) (*Lease, error)
	// lock is set if it is of a plain lock: several names of such locks can be taken at once.
	lock *Lock
}

// compare orders the parts of all locks, in all processes alike.
func (p joinPart) compare(q joinPart) int {
	return cmp.Or(strings.Compare(p.name, q.name), strings.Compare(p.kind, q.kind), strings.Compare(p.nodes, q.nodes))
}

// parts makes a Lock an Acquirer.
func (l *Lock) parts() ([]joinPart, error) {
	if len(l.problems) > 0 {
		return nil, &InvalidError{Problems: l.problems}
	}
	parts := make([]joinPart, len(l.names))
	for i, name := range l.names {
		parts[i] = joinPart{name: name, kind: "lock", nodes: l.client.sortedNodeNames(), lock: l}
	}
	return parts, nil
}

// sortedNodeNames are the names of the nodes, in one order.
func (c *Client) sortedNodeNames() string {
	names := make([]string, c.nodes.Len())
	for i := range names {
		names[i] = c.nodes.Name(i)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// withNames is the same lock on some of its names, and on those of others that are alike.
func (l *Lock) withNames(names []string) *Lock {
	if slices.Equal(l.names, names) {
		return l
	}
	m := *l
	m.names, m.queueName[0], m.problems = names, joinNames(names), nameProblems(names)
	return &m
}

// sameOptions reports whether names of both locks can be taken at once. Readers take one each.
func (l *Lock) sameOptions(m *Lock) bool {
	return !l.shared && !m.shared && l.client == m.client && l.need == m.need && l.ttl == m.ttl && l.maxHold == m.maxHold &&
		l.noRenew == m.noRenew && equalStrings(l.purpose, m.purpose) && l.waitMode == m.waitMode && l.mayHandOver == m.mayHandOver
}

// joinStep is what is taken at once.
type joinStep struct {
	parts []joinPart
	take  func(ctx context.Context, wait bool) (*Lease, error)
}

// joinSteps puts neighbours together that can be taken at once. Whoever waits for a step holds
// only what comes before all of it.
func joinSteps(all []joinPart) []joinStep {
	var steps []joinStep
	for _, p := range all {
		if n := len(steps); n > 0 && steps[n-1].canInclude(p) {
			steps[n-1].parts = append(steps[n-1].parts, p)
			continue
		}
		steps = append(steps, joinStep{parts: []joinPart{p}, take: p.take})
	}
	for i, s := range steps {
		if first := s.parts[0].lock; first != nil {
			names := make([]string, len(s.parts))
			for k, p := range s.parts {
				names[k] = p.name
			}
			steps[i].take = first.withNames(names).acquireOrTry
		}
	}
	return steps
}

// canInclude reports whether a part can be taken in the same step.
func (s joinStep) canInclude(p joinPart) bool {
	first := s.parts[0].lock
	return first != nil && p.lock != nil && first.sameOptions(p.lock) && len(s.parts) < MaxNames
}

// acquireOrTry takes the lock, or tries to.
func (l *Lock) acquireOrTry(ctx context.Context, wait bool) (*Lease, error) {
	if wait {
		return l.Acquire(ctx)
	}
	return l.TryAcquire(ctx)
}
