//go:build !race

package spec

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// mutant is a model without one of its rules.
type mutant struct{ without rule }

func (m mutant) has(r rule) bool { return m.without != r }

// found is the result of an exploration.
type found struct {
	states int
	// slowest is how many ticks a waiter may have to wait after the last fault.
	slowest int
	// broken names a promise that does not hold, or is empty. trace has the steps that lead there.
	broken string
	trace  []string
	// bounded says that the exploration has stopped at its bound of states.
	bounded bool
}

func (f found) String() string {
	return fmt.Sprintf("%s, after %d states:\n  %s", f.broken, f.states, strings.Join(f.trace, "\n  "))
}

// rules are a model: its first state, all that can follow a state, and what must hold in each.
type rules[S comparable] interface {
	first() S
	// next tells all states that can follow one.
	next(s *S, emit emit[S])
	// canonical is the same state for all that differ only by an order of nodes, or of owners that are alike.
	canonical(s *S) S
	// broken names a promise that a state breaks, or is empty.
	broken(s *S) string
}

// lively is a model of waiters. After the last fault, all that live must be served, with at most some idle ticks in each order of
// the steps. calm says that a step is no fault.
type lively[S comparable] interface {
	rules[S]
	waits(s *S) bool
	calm(from, to *S) bool
	within() int
}

// emit gets each next state, with the step that leads there, and the promise that this step breaks.
type emit[S comparable] func(next S, broken string, step string, args ...any)

// explore visits the states of a model, the nearest first, until one breaks a promise, or bound is reached.
func explore[S comparable](m rules[S]) found {
	states := []S{m.first()}
	seen := map[S]int32{states[0]: 0}
	before := []int32{-1}
	var result found
	live, _ := m.(lively[S])
	var steps [][]calmStep
	var s, t, c S // these go to methods by their addresses, so they are allocated once
	for at := 0; at < len(states) && result.broken == ""; at++ {
		s, steps = states[at], append(steps, nil)
		m.next(&s, func(next S, broken, step string, args ...any) {
			if result.broken != "" {
				return
			}
			t = next
			c = m.canonical(&t)
			to, old := seen[c]
			if !old {
				to = int32(len(states))
				seen[c] = to
				states, before = append(states, c), append(before, int32(at))
			}
			if live != nil && live.waits(&s) && live.waits(&t) && live.calm(&s, &t) {
				steps[at] = append(steps[at], calmStep{to, step == idleTick})
			}
			if broken == "" && !old {
				broken = m.broken(&c)
			}
			if broken != "" {
				result.broken = broken
				result.trace = append(trace(m, states, pathTo(before, at)), fmt.Sprintf(step, args...))
			}
		})
		if len(states) >= bound {
			result.bounded = true
			break
		}
	}
	result.states = len(states)
	if live == nil || result.broken != "" || result.bounded {
		return result
	}
	runs, worst := calmRuns{steps, make([]int, len(states)), make([]int32, len(states))}, int32(-1)
	for at := range states {
		if n := runs.longest(int32(at)); n > result.slowest || worst < 0 {
			result.slowest, worst = n, int32(at)
		}
	}
	if result.slowest > live.within() {
		result.broken = fmt.Sprintf("liveness: a waiter waits for a free lock for %d ticks", result.slowest)
		path := pathTo(before, int(worst))
		for s, most := runs.next[worst], len(path)+40; s >= 0 && len(path) < most; s = runs.next[s] {
			path = append(path, s)
		}
		result.trace = trace(m, states, path)
	}
	return result
}

// calmStep is a step without a fault to a state in which a waiter waits.
type calmStep struct {
	to   int32
	idle bool
}

const (
	forEver  = 1_000
	idleTick = "an idle tick"
)

// calmRuns has the steps from each state. most has the idle ticks of the longest run from it, plus 1, and next how that begins.
type calmRuns struct {
	steps [][]calmStep
	most  []int
	next  []int32
}

// longest finds the longest run from a state. One that comes back to a state has no end.
func (r *calmRuns) longest(s int32) int {
	if r.most[s] == 0 {
		r.most[s], r.next[s] = forEver, -1
		most := 0
		for _, step := range r.steps[s] {
			n := r.longest(step.to)
			if step.idle {
				n++
			}
			if n > most || r.next[s] < 0 {
				most, r.next[s] = n, step.to
			}
		}
		r.most[s] = most + 1
	}
	return r.most[s] - 1
}

func pathTo(before []int32, at int) (path []int32) {
	for i := int32(at); i >= 0; i = before[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// trace finds the steps of a path. It begins at the first state and keeps the numbers of nodes and owners, which differ in
// canonical states.
func trace[S comparable](m rules[S], states []S, path []int32) (steps []string) {
	s := states[path[0]]
	for _, i := range path[1:] {
		found := false
		m.next(&s, func(t S, _, step string, args ...any) {
			if !found && m.canonical(&t) == states[i] {
				found, s = true, t
				steps = append(steps, fmt.Sprintf(step, args...))
			}
		})
	}
	return steps
}

// symmetries are the orders of owners that change nothing: of those that are alike in all that the config says of them.
func (m *model) symmetries() [][]int {
	var all [][]int
	var permute func(chosen []int)
	permute = func(chosen []int) {
		if len(chosen) == len(m.lists) {
			all = append(all, slices.Clone(chosen))
			return
		}
		for o := range m.lists {
			k := len(chosen)
			if !slices.Contains(chosen, o) && m.lists[o] == m.lists[k] && m.reads(o) == m.reads(k) &&
				m.slotsOf(o) == m.slotsOf(k) {
				permute(append(chosen, o))
			}
		}
	}
	permute(nil)
	return all
}

// canonical is the smallest of all states that differ from one only by an order of owners and nodes.
func (m *model) canonical(s *state) state {
	if m.orders == nil {
		m.orders = m.symmetries()
	}
	var least state
	for i, order := range m.orders {
		t := *s
		for to, from := range order {
			t.owners[to] = s.owners[from]
		}
		for n := range t.nodes {
			d, e := &s.nodes[n], &t.nodes[n]
			e.took, e.shared, e.savedShared = 0, 0, 0
			for to, from := range order {
				e.until[to], e.savedUntil[to] = d.until[from], d.savedUntil[from]
				e.claim[to], e.answers[to], e.told[to] = d.claim[from], d.answers[from], d.told[from]
				e.took |= d.took >> from & 1 << to
				e.shared |= d.shared >> from & 1 << to
				e.savedShared |= d.savedShared >> from & 1 << to
			}
		}
		sortNodes(t.nodes[:m.nodes()], m.alike)
		if i == 0 || bytes.Compare(memory(&t), memory(&least)) < 0 {
			least = t
		}
	}
	return least
}

// sortNodes puts the nodes into an order that are alike; nil says that all are.
func sortNodes[N any](nodes []N, alike func(a, b int) bool) {
	for i := range nodes {
		for k := i; k > 0 && (alike == nil || alike(k, k-1)) && bytes.Compare(memory(&nodes[k]), memory(&nodes[k-1])) < 0; k-- {
			nodes[k], nodes[k-1] = nodes[k-1], nodes[k]
		}
	}
}

func (m *model) alike(a, b int) bool {
	for o := range m.lists {
		if m.uses(o, a) != m.uses(o, b) {
			return false
		}
	}
	return true
}

// memory has the bytes of a state or a node, which have no padding.
func memory[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
