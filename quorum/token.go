package quorum

// NextToken returns the fencing token to propose: the client's clock, in microseconds
// since the Unix epoch, or one more than the largest token that is known to have been
// seen, if that is more. A clock before the epoch counts as the epoch, and a token is
// never 0.
//
// A token counts once a quorum of nodes has taken it, each only if it knew no token as
// large. Two quorums share a node, and that node takes tokens in the order in which it
// grants: so they grow in the order of the grants.
func NextToken(clock int64, seen uint64) uint64 {
	return max(uint64(max(clock, 0)), seen+1)
}

// TokenToBeat returns the largest of the need smallest fences: a token above it is one that
// need nodes will take, and no node beyond those has a say in how large it must be, such
// as one whose clock is far ahead. It neither allocates nor reorders its argument, and
// returns 0 if there are fewer than need fences, or need is below 1.
func TokenToBeat(fences []uint64, need int) uint64 {
	if need < 1 || len(fences) < need {
		return 0
	}
	best := ^uint64(0)
	for _, f := range fences {
		if f < best && countTo(fences, f) >= need {
			best = f
		}
	}
	return best
}

// countTo returns how many of the fences are at or below most.
func countTo(fences []uint64, most uint64) int {
	n := 0
	for _, f := range fences {
		if f <= most {
			n++
		}
	}
	return n
}
