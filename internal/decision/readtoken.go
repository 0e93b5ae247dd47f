package decision

// ReadToken returns the token under which a reader acts. fences are the fences of the nodes that
// granted, out of n nodes. It returns 0 while there are fewer than need. need must be a majority of
// n or more. It neither allocates nor reorders its argument.
//
// Every writer's token is on at least need nodes, so at most n-need nodes lack it. A fence that is
// at least as large as n-need+1 of the given fences is therefore at least as large as every earlier
// writer's token. ReadToken returns the smallest such fence. With fences of all nodes, need nodes
// already have it.
//
// A reader's token is on need nodes too, by a write-back if necessary. So no later reader acts under
// a smaller one.
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
