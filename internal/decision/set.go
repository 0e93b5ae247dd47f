package decision

import (
	"iter"
	"math/bits"
)

// Set is a set of nodes, by index below [quorum.MaxNodes]. The zero value is empty.
type Set uint64

// Has reports whether node i is in the set.
func (s Set) Has(i int) bool { return s&(1<<i) != 0 }

// With returns the set with node i in it.
func (s Set) With(i int) Set { return s | 1<<i }

// Without returns the set without node i.
func (s Set) Without(i int) Set { return s &^ (1 << i) }

// Len returns how many nodes are in the set.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// All yields the nodes of the set in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := uint64(s); rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}
