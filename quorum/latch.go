package quorum

import (
	"slices"
	"strings"
)

// LatchAnswer is what one node has told of a latch. The zero value is a node that has not
// answered.
type LatchAnswer struct {
	Told bool
	// Generation counts the times that the latch was deleted, as far as the node knows: it is
	// the token of the last deletion, and what was before is void.
	Generation uint64
	// Count is what the latch was set to, or 0; Since is the token with which it was.
	Count int
	Since uint64
	// Memory is the token of the moment from which on the node knows all that it was told;
	// 0 if it never lost its memory. Refilled is set if it was given back, since then, what
	// enough others knew. Recovering is set if the loss is so new that the node gives no
	// rights.
	Memory               uint64
	Refilled, Recovering bool
	// Size is how many have counted down on the node, as it said last.
	Size int
	// IDs are the ids that the caller knows to be on the node, sorted, each once.
	IDs []string
}

// LatchView is what the answers of several nodes come to.
type LatchView struct {
	// Known reports whether enough of those who have answered remember all that they were told
	// about this generation: what is not in their union did not happen, or is not over yet.
	// Otherwise the rest of the view is not to be relied on.
	Known bool
	// Generation is the latest that anybody knows of. All else is about it.
	Generation uint64
	// Count is what the latch was set to, 0 if it was not. Chosen is set if enough nodes say so,
	// and Disputed if others say something else and none has enough. Since is the first of
	// the tokens of those who set it.
	Count            int
	Since            uint64
	Chosen, Disputed bool
	// IDs are all that have counted down, sorted. They may share memory with an answer.
	IDs []string
	// Holders is how many nodes have all of that. Once they are enough, others who look will see
	// it too: before, it may not be told.
	Holders int
	// Most is the largest size that a node has told, and Full how many nodes have as many ids as
	// the latch was set to. If Full nodes are enough, the latch is done, and every later read
	// will see it: any majority has one of them. No id has to be read to know that.
	Most, Full int
}

// ViewLatch puts together what nodes have answered, for a rule that asks for so many of them.
// known are ids of this generation that the caller knows of besides. skew is how far the clocks
// of nodes and clients may be apart, in the unit of tokens.
//
// A node that has lost its memory since the latch was set is no witness of what did not happen:
// only what it has counts. Nor is one that has lost it at any time, and was not told that the latch
// is set: those who know since when may not be among the others, but only some who were told later.
// But all of a generation comes after the deletion that began it: who forgot before that is a witness,
// whether it was told of it or not.
func ViewLatch(answers []LatchAnswer, need int, known []string, skew uint64) LatchView {
	var v LatchView
	for _, a := range answers {
		v.Generation = max(v.Generation, a.Generation)
	}
	v.IDs = slices.Compact(slices.Sorted(slices.Values(known)))
	for _, a := range answers {
		if !a.of(v.Generation) {
			continue
		}
		v.IDs = UnionOfIDs(v.IDs, a.IDs)
		if a.Count > 0 && (v.Since == 0 || a.Since < v.Since) {
			v.Since = a.Since
		}
	}
	v.elect(answers, need)
	members := 0
	for _, a := range answers {
		if v.Member(a, skew) {
			members++
		}
		if a.of(v.Generation) {
			v.Most = max(v.Most, a.Size)
		}
		if v.Count > 0 && v.alike(a) && a.Size >= v.Count {
			v.Full++
		}
	}
	v.Holders = v.HeldBy(answers)
	v.Known = need > 0 && members >= need
	return v
}

// MayBeDone reports whether the sizes allow that as many count-downs as it takes have been
// confirmed. A count-down that was confirmed is on need of the nodes, or has been given back to
// those that forgot it. So all nodes but need may lack it, and every other witness counts it.
func (v *LatchView) MayBeDone(answers []LatchAnswer, need int, skew uint64) bool {
	sum, witnesses := 0, 0
	for _, a := range answers {
		if !v.Member(a, skew) {
			continue
		}
		witnesses++
		if a.of(v.Generation) {
			sum += a.Size
		}
	}
	return v.Count > 0 && (v.Most >= v.Count || sum >= v.Count*(witnesses+need-len(answers)))
}

// UnionOfIDs merges two sorted lists of ids. Most nodes know the same, and that costs nothing. The
// result may share memory with either.
func UnionOfIDs(a, b []string) []string {
	switch {
	case len(a) == 0 || slices.Equal(a, b):
		return b
	case len(b) == 0:
		return a
	}
	all := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		order := strings.Compare(a[0], b[0])
		if order <= 0 {
			all = append(all, a[0])
			a = a[1:]
		} else {
			all = append(all, b[0])
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// of reports whether an answer is about that generation.
func (a LatchAnswer) of(generation uint64) bool { return a.Told && a.Generation == generation }

// elect finds what the latch was set to.
func (v *LatchView) elect(answers []LatchAnswer, need int) {
	most := 0
	for _, a := range answers {
		if !a.of(v.Generation) || a.Count == 0 {
			continue
		}
		n := 0
		for _, b := range answers {
			if b.of(v.Generation) && b.Count == a.Count {
				n++
			}
		}
		v.Disputed = v.Disputed || v.Count != 0 && v.Count != a.Count
		if n > most || n == most && a.Count < v.Count {
			most, v.Count = n, a.Count
		}
	}
	v.Chosen = most >= need
	v.Disputed = v.Disputed && !v.Chosen
}

// Member reports whether a node is a witness of what did not happen in this generation.
func (v *LatchView) Member(a LatchAnswer, skew uint64) bool {
	switch {
	case !a.Told:
		return false
	case v.Count == 0:
		return !a.Recovering
	case a.Memory == 0 || a.Refilled && a.Generation == v.Generation:
		return true
	default:
		return a.ForgotBefore(v.Generation, skew) || a.of(v.Generation) && a.Count > 0 && a.ForgotBefore(v.Since, skew)
	}
}

// ForgotBefore reports whether a node lost its memory before a token was made, if it ever did, by
// whatever clocks.
func (a LatchAnswer) ForgotBefore(token, skew uint64) bool {
	return a.Memory < token && token-a.Memory > skew
}

// Alike reports whether another view is of the same latch, at most with other ids: either both
// are done, or none is.
func (v *LatchView) Alike(w *LatchView) bool {
	return v.Generation == w.Generation && v.Count == w.Count && v.Since == w.Since && v.Done() == w.Done()
}

// HeldBy is how many nodes have all that is in the view, by what they have told since.
func (v *LatchView) HeldBy(answers []LatchAnswer) (holders int) {
	for _, a := range answers {
		if v.Holds(a) {
			holders++
		}
	}
	return holders
}

// Holds reports whether a node has all that is in the view; of a latch that is not set, that is
// the generation.
func (v *LatchView) Holds(a LatchAnswer) bool {
	return v.alike(a) && (v.Count == 0 || len(v.Missing(a)) == 0)
}

// alike reports whether a node has the same generation, and is set alike.
func (v *LatchView) alike(a LatchAnswer) bool {
	return a.of(v.Generation) && a.Count == v.Count && (v.Count == 0 || a.Since == v.Since)
}

// Missing are the ids that a node does not have, sorted.
func (v *LatchView) Missing(a LatchAnswer) []string {
	if !a.of(v.Generation) {
		return v.IDs
	}
	if slices.Equal(a.IDs, v.IDs) {
		return nil
	}
	var missing []string
	for _, id := range v.IDs {
		if _, has := slices.BinarySearch(a.IDs, id); !has {
			missing = append(missing, id)
		}
	}
	return missing
}

// Done reports whether enough have counted down, by the ids.
func (v *LatchView) Done() bool { return v.Count > 0 && len(v.IDs) >= v.Count }

// Left is how many have still to count down, by the ids.
func (v *LatchView) Left() int { return max(v.Count-len(v.IDs), 0) }

// LeftAtMost is how many have still to count down at most, by the ids and the sizes.
func (v *LatchView) LeftAtMost() int { return max(v.Count-max(len(v.IDs), v.Most), 0) }
