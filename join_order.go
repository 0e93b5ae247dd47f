package quorumlock

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// part is one name of a lock that is joined.
type part struct {
	// name, kind and nodes say which it is, in any process: kind is that of locks that exclude
	// each other, nodes the names of the nodes.
	name, kind, nodes string
	// take takes it, or tries to.
	take func(ctx context.Context, wait bool) (*Lease, error)
	// lock is set if it is of a plain lock: several names of such locks can be taken at once.
	lock *Lock
}

// before orders the parts of all locks, in all processes alike.
func (p part) before(q part) int {
	return cmp.Or(strings.Compare(p.name, q.name), strings.Compare(p.kind, q.kind), strings.Compare(p.nodes, q.nodes))
}

// parts makes a Lock an Acquirer.
func (l *Lock) parts() ([]part, error) {
	if len(l.problems) > 0 {
		return nil, &InvalidError{Problems: l.problems}
	}
	parts := make([]part, len(l.names))
	for i, name := range l.names {
		parts[i] = part{name: name, kind: "lock", nodes: l.client.nodeNames(), lock: l}
	}
	return parts, nil
}

// nodeNames are the names of the nodes, in one order.
func (c *Client) nodeNames() string {
	names := make([]string, c.nodes.Len())
	for i := range names {
		names[i] = c.nodes.Name(i)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// on is the same lock on some of its names, and on those of others that are alike.
func (l *Lock) on(names []string) *Lock {
	if slices.Equal(l.names, names) {
		return l
	}
	m := *l
	m.names, m.id[0], m.problems = names, joined(names), nameProblems(names)
	return &m
}

// alike reports whether names of both locks can be taken at once. Readers take one each.
func (l *Lock) alike(m *Lock) bool {
	return !l.reads && !m.reads && l.client == m.client && l.need == m.need && l.ttl == m.ttl && l.maxHold == m.maxHold &&
		l.fixed == m.fixed && equal(l.purpose, m.purpose) && l.waiting == m.waiting && l.handover == m.handover
}

// step is what is taken at once.
type step struct {
	parts []part
	take  func(ctx context.Context, wait bool) (*Lease, error)
}

// stepsOf puts neighbours together that can be taken at once. Whoever waits for a step holds
// only what comes before all of it.
func stepsOf(all []part) []step {
	var steps []step
	for _, p := range all {
		if n := len(steps); n > 0 && steps[n-1].takes(p) {
			steps[n-1].parts = append(steps[n-1].parts, p)
			continue
		}
		steps = append(steps, step{parts: []part{p}, take: p.take})
	}
	for i, s := range steps {
		if first := s.parts[0].lock; first != nil {
			names := make([]string, len(s.parts))
			for k, p := range s.parts {
				names[k] = p.name
			}
			steps[i].take = first.on(names).take
		}
	}
	return steps
}

// takes reports whether a part can be taken in the same step.
func (s step) takes(p part) bool {
	first := s.parts[0].lock
	return first != nil && p.lock != nil && first.alike(p.lock) && len(s.parts) < MaxNames
}

// take takes the lock, or tries to.
func (l *Lock) take(ctx context.Context, wait bool) (*Lease, error) {
	if wait {
		return l.Acquire(ctx)
	}
	return l.TryAcquire(ctx)
}
