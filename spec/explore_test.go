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

// explore visits the states of a model, the nearest first, until one breaks a promise, or bound is reached.
//
// It remembers states only in a canonical form, since nodes that the same owners use are alike, and so are owners.
func explore(m *model) found {
	symmetries := m.symmetries()
	states := []state{m.first()}
	seen := map[state]int32{states[0]: -1} // the index of the state before
	before := []int32{-1}
	var result found
	for at := 0; at < len(states) && result.broken == ""; at++ {
		s := states[at]
		m.next(&s, func(t state, broken, step string, args ...any) {
			if result.broken != "" {
				return
			}
			c := m.canonical(&t, symmetries)
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
					result.trace = append(m.trace(states, before, at), fmt.Sprintf(step, args...))
				} else {
					result.trace = m.trace(states, before, len(states)-1)
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
func (m *model) trace(states []state, before []int32, at int) []string {
	var path []int
	for i := at; i >= 0; i = int(before[i]) {
		path = append(path, i)
	}
	slices.Reverse(path)
	symmetries := m.symmetries()
	var steps []string
	s := states[path[0]]
	for _, i := range path[1:] {
		found, now := false, s.now-start
		m.next(&s, func(t state, _, step string, args ...any) {
			if !found && m.canonical(&t, symmetries) == states[i] {
				found, s = true, t
				steps = append(steps, fmt.Sprintf("t=%d: ", now)+fmt.Sprintf(step, args...))
			}
		})
	}
	return steps
}

// symmetries are the orders of owners that change nothing: of those who read, and of those with one list of nodes.
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
			if !slices.Contains(chosen, o) && m.lists[o] == m.lists[k] && m.reads(o) == m.reads(k) {
				permute(append(chosen, o))
			}
		}
	}
	permute(nil)
	return all
}

// canonical is the smallest of all states that differ from one only by an order of owners and nodes.
func (m *model) canonical(s *state, symmetries [][]int) state {
	var least state
	for i, order := range symmetries {
		t := *s
		for to, from := range order {
			t.owners[to] = s.owners[from]
		}
		for n := range t.nodes {
			d, e := &s.nodes[n], &t.nodes[n]
			e.took = 0
			for to, from := range order {
				e.until[to], e.savedUntil[to] = d.until[from], d.savedUntil[from]
				e.claim[to], e.answers[to] = d.claim[from], d.answers[from]
				e.took |= d.took >> from & 1 << to
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
