package quorum

// ReadToken returns the token under which a reader acts, by the fences of the nodes that have
// granted it, of which there are fences of n nodes: 0 while there are fewer than need.
//
// The token of a writer is kept by need nodes at least, so of all but n-need. Any fence that is
// as large as that many of those that were told, and one more, is as large as that of every
// writer before; and so is what only those few nodes have told that are more than it takes. It
// returns the smallest such fence: with all nodes, the one that need nodes have already.
//
// Readers whose token is kept by need nodes do not act under smaller ones than readers before
// them either: those to which a node of theirs has forgotten it, are told one as large. It
// neither allocates nor reorders its argument. Need is to be a majority of n, or more.
func ReadToken(fences []uint64, n, need int) uint64 {
	rank := len(fences) - (n - need)
	if need < 1 || len(fences) < need || rank < 1 {
		return 0
	}
	best := uint64(0)
	for _, f := range fences {
		if f > best && asLarge(fences, f) >= rank {
			best = f
		}
	}
	return best
}

// asLarge returns how many of the fences are at or above least.
func asLarge(fences []uint64, least uint64) int {
	n := 0
	for _, f := range fences {
		if f >= least {
			n++
		}
	}
	return n
}
