package decision

import (
	"math/bits"
	"slices"
)

// Slots is a set of the slots of a pool. Slot i is bit i%8 of byte i/8. A slot beyond the length is
// not in the set.
type Slots []byte

// Has reports whether a slot is in the set.
func (s Slots) Has(i int) bool { return i >= 0 && i/8 < len(s) && s[i/8]&(1<<(i%8)) != 0 }

// Count returns how many of the first size slots are in the set.
func (s Slots) Count(size int) (n int) {
	for i, b := range s {
		if rest := size - 8*i; rest <= 0 {
			break
		} else if rest < 8 {
			b &= 1<<rest - 1
		}
		n += bits.OnesCount8(b)
	}
	return n
}

// With returns the set with slot i added. It may modify s, or allocate to grow it.
func (s Slots) With(i int) Slots {
	for i/8 >= len(s) {
		s = append(s, 0)
	}
	s[i/8] |= 1 << (i % 8)
	return s
}

// Without returns the set with slot i removed. It modifies s.
func (s Slots) Without(i int) Slots {
	if s.Has(i) {
		s[i/8] &^= 1 << (i % 8)
	}
	return s
}

// ChooseSlots returns which want slots to ask for, out of 0 to size-1 and none in barred. It
// returns fewer if there are fewer.
//
// It prefers the slots that most nodes report as free; more than need nodes count as need, which is
// enough. Among equals it prefers the slots in likely, and then the first slots from start on,
// cyclically. Contenders with the same knowledge should use different starts.
//
// reports has one entry for each node, nil for a node that has reported nothing. Reports outrank
// likely.
func ChooseSlots(want, size, need, start int, reports []Slots, likely, barred Slots) []int {
	if want < 1 || size < 1 {
		return nil
	}
	best := make([]int, 0, want)
	scores := make([]int, 0, want)
	for k := range size {
		i := (start%size + size + k) % size
		if barred.Has(i) {
			continue
		}
		score := 2 * min(reportedFree(i, reports), need)
		if likely.Has(i) {
			score++
		}
		at := len(best)
		for at > 0 && scores[at-1] < score {
			at--
		}
		if at == want {
			continue
		}
		if len(best) == want {
			best, scores = best[:want-1], scores[:want-1]
		}
		best, scores = slices.Insert(best, at, i), slices.Insert(scores, at, score)
	}
	return best
}

func reportedFree(i int, reports []Slots) (n int) {
	for _, free := range reports {
		if free.Has(i) {
			n++
		}
	}
	return n
}
