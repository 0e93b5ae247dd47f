package quorum

import "math/bits"

// Slots is a set of slots of a pool, by their numbers: a bit for each, that of slot i being bit i%8
// of byte i/8. What is beyond its length is not in it.
type Slots []byte

// Has reports whether a slot is in the set.
func (s Slots) Has(i int) bool { return i >= 0 && i/8 < len(s) && s[i/8]&(1<<(i%8)) != 0 }

// Count is how many of the first size slots are in the set.
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

// With is the set with one slot more, grown where that is necessary.
func (s Slots) With(i int) Slots {
	for i/8 >= len(s) {
		s = append(s, 0)
	}
	s[i/8] |= 1 << (i % 8)
	return s
}

// Without is the set with one slot less.
func (s Slots) Without(i int) Slots {
	if s.Has(i) {
		s[i/8] &^= 1 << (i % 8)
	}
	return s
}

// ChooseSlots returns which want of the slots from 0 to size-1 to ask for, or fewer if there
// are not so many that may be asked for: those in none of barred. It prefers those that the
// most nodes have reported as free, up to need of them, as that is as good as all; of these,
// those in likely; and of the rest those that come first from a start on, round the end:
// contenders who know the same had better begin at different ones. reports has what each node
// said, nil of a node that has said nothing, and is the only source if it has anything: a slot
// that no report names is worse than one that some do.
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
		score := 2 * min(reported(i, reports), need)
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
		best, scores = insert(best, at, i), insert(scores, at, score)
	}
	return best
}

// reported is how many nodes have said that a slot is free.
func reported(i int, reports []Slots) (n int) {
	for _, free := range reports {
		if free.Has(i) {
			n++
		}
	}
	return n
}

func insert(s []int, at, v int) []int {
	s = append(s, 0)
	copy(s[at+1:], s[at:])
	s[at] = v
	return s
}
