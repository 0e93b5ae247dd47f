//go:build !race

package spec

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// found is the result of an exploration.
type found struct {
	states int
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
	// time is when a state is, in ticks from the first one.
	time(s *S) uint8
}

// emit gets each next state, with the step that leads there, and the promise that this step breaks.
type emit[S comparable] func(next S, broken string, step string, args ...any)

// explore visits the states of a model, the nearest first, until one breaks a promise, or bound is reached.
func explore[S comparable](m rules[S]) found {
	states := []S{m.first()}
	seen := map[S]int32{states[0]: -1} // the index of the state before
	before := []int32{-1}
	var result found
	var s, t, c S // these go to methods by their addresses, so they are allocated once
	for at := 0; at < len(states) && result.broken == ""; at++ {
		s = states[at]
		m.next(&s, func(next S, broken, step string, args ...any) {
			if result.broken != "" {
				return
			}
			t = next
			c = m.canonical(&t)
			_, old := seen[c]
			if !old {
				seen[c] = int32(at)
				states, before = append(states, c), append(before, int32(at))
			}
			if broken == "" && !old {
				broken = m.broken(&c)
			}
			if broken != "" {
				result.broken = broken
				if old {
					result.trace = append(trace(m, states, before, at), fmt.Sprintf(step, args...))
				} else {
					result.trace = trace(m, states, before, len(states)-1)
				}
			}
		})
		if len(states) >= bound {
			result.bounded = true
			break
		}
	}
	result.states = len(states)
	return result
}

// trace finds steps that lead to a state. It begins at the first one and keeps the numbers of nodes and owners, which
// differ in canonical states.
func trace[S comparable](m rules[S], states []S, before []int32, at int) []string {
	var path []int
	for i := at; i >= 0; i = int(before[i]) {
		path = append(path, i)
	}
	slices.Reverse(path)
	var steps []string
	s := states[path[0]]
	for _, i := range path[1:] {
		found, now := false, m.time(&s)
		m.next(&s, func(t S, _, step string, args ...any) {
			if !found && m.canonical(&t) == states[i] {
				found, s = true, t
				steps = append(steps, fmt.Sprintf("t=%d: ", now)+fmt.Sprintf(step, args...))
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
		m.sortNodes(&t)
		if i == 0 || bytes.Compare(memory(&t), memory(&least)) < 0 {
			least = t
		}
	}
	return least
}

// sortNodes puts the nodes that the same owners use into an order.
func (m *model) sortNodes(s *state) {
	for i := 1; i < m.nodes(); i++ {
		for k := i; k > 0 && m.alike(k, k-1) && bytes.Compare(memory(&s.nodes[k]), memory(&s.nodes[k-1])) < 0; k-- {
			s.nodes[k], s.nodes[k-1] = s.nodes[k-1], s.nodes[k]
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

// memory has the bytes of a state or a node, which have no padding, as all their fields are bytes.
func memory[T state | node](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
