package decision

import (
	"slices"
	"strings"
)

// LatchAnswer is the last answer of one node about a latch. The zero value is a node that has not
// answered.
type LatchAnswer struct {
	Told bool
	// Generation is the token of the last deletion that the node knows. Everything from before it
	// is void.
	Generation uint64
	// Count is the number to which the latch is set, or 0. Since is the token of that Set.
	Count int
	Since uint64
	// Memory is the token of the time since when the node remembers everything; 0 if it never lost
	// its memory. Refilled is set if it has been given back what enough other nodes knew.
	// Recovering is set if the loss is so recent that the node gives no rights.
	Memory               uint64
	Refilled, Recovering bool
	// Size is how many ids the node last reported to have counted down. A node takes no more than Count.
	Size int
	// IDs are the ids that the caller knows to be on the node, sorted, each once.
	IDs []string
}

// LatchView combines the answers of several nodes.
type LatchView struct {
	// Known reports whether enough nodes answered that remember all of this generation. Then an id
	// that none of them has was not counted down, or its call still runs. If Known is not set,
	// ignore the rest of the view.
	Known bool
	// Generation is the latest generation that any node reported. The other fields are about it.
	Generation uint64
	// Count is the number to which the latch is set, or 0. Chosen is set if enough witnesses agree on
	// it. Otherwise Rival is another number that some node has, or 0 if there is none. Since is the
	// smallest token of any Set that nodes reported.
	Count, Rival int
	Since        uint64
	Chosen       bool
	// IDs are all ids that have counted down, sorted. The slice may share memory with an answer.
	IDs []string
	// Holders is how many nodes have everything in this view. The view may be told only once enough
	// nodes have it, since only then later readers see it too.
	Holders int
}

// ViewLatch combines the answers of the nodes, for a rule that needs `need` of them. The ids in
// known are further ids of this generation that the caller knows. skew is how far the
// clocks of nodes and clients may differ, plus the time before a client restores a node, in the unit
// of tokens.
//
// A node that lost its memory after the latch was set is no witness for what did not happen; only
// its own ids count. A node that lost its memory at any time and does not know that the latch is
// set is no witness either. The nodes that know when it was set may be missing among the answers.
//
// But a generation begins with a deletion. A node that lost its memory before the deletion is a
// witness, even if it was not told of the deletion.
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
	v.elect(answers, need, skew)
	members := 0
	for _, a := range answers {
		if v.Member(a, skew) {
			members++
		}
	}
	v.Holders = v.HeldBy(answers)
	v.Known = need > 0 && members >= need
	return v
}

// UnionOfIDs merges two sorted lists of ids. The result may share memory with either list: nodes
// mostly have the same ids, and then nothing is copied.
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

func (a LatchAnswer) of(generation uint64) bool { return a.Told && a.Generation == generation }

// elect sets Count, Chosen and Rival.
//
// Only witnesses choose. A node that lost its memory may have had another number before, which enough
// nodes had agreed on.
func (v *LatchView) elect(answers []LatchAnswer, need int, skew uint64) {
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
		if n > most || n == most && a.Count < v.Count {
			most, v.Count = n, a.Count
		}
	}
	agreed := 0
	for _, a := range answers {
		if a.of(v.Generation) && a.Count == v.Count && v.Member(a, skew) {
			agreed++
		}
	}
	v.Chosen = v.Count > 0 && agreed >= need
	for _, a := range answers {
		if !v.Chosen && a.of(v.Generation) && a.Count != 0 && a.Count != v.Count {
			v.Rival = a.Count
		}
	}
}

// Member reports whether a node is a witness for what did not happen in this generation.
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

// ForgotBefore reports whether the node's last loss of memory came before token, even if the clocks
// differ by skew. It is true for a node that never lost its memory.
func (a LatchAnswer) ForgotBefore(token, skew uint64) bool {
	return a.Memory < token && token-a.Memory > skew
}

// Alike reports whether two views differ at most in ids, and either both or neither are done.
func (v *LatchView) Alike(w *LatchView) bool {
	return v.Generation == w.Generation && v.Count == w.Count && v.Since == w.Since && v.Done() == w.Done()
}

// HeldBy counts the nodes that have everything in the view, by their answers.
func (v *LatchView) HeldBy(answers []LatchAnswer) (holders int) {
	for _, a := range answers {
		if v.Holds(a) {
			holders++
		}
	}
	return holders
}

// Holds reports whether a node has everything in the view. If the latch is not set, that is only
// the generation. A node with Count ids needs no others: each reader of that node finds the latch done.
func (v *LatchView) Holds(a LatchAnswer) bool {
	return v.alike(a) && (v.Count == 0 || v.isFull(a) || len(v.Missing(a)) == 0)
}

// isFull reports whether a node has as many ids as the latch was set to.
func (v *LatchView) isFull(a LatchAnswer) bool { return a.Size >= v.Count }

// alike reports whether a node has the same generation, count and Since.
func (v *LatchView) alike(a LatchAnswer) bool {
	return a.of(v.Generation) && a.Count == v.Count && (v.Count == 0 || a.Since == v.Since)
}

// Missing returns the ids that the node lacks, sorted.
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

// Done reports whether enough ids have counted down.
func (v *LatchView) Done() bool { return v.Count > 0 && len(v.IDs) >= v.Count }

// Left returns how many more must count down.
func (v *LatchView) Left() int { return max(v.Count-len(v.IDs), 0) }
