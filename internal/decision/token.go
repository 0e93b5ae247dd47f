package decision

// NextToken returns the fencing token to propose: max(clock, seen+1). clock is the client's clock
// in microseconds since the Unix epoch, and seen the largest known token. A negative clock counts
// as 0. A token is never 0.
//
// A token counts once a quorum of nodes has taken it. Each takes it only if it knew no token as
// large. Two quorums share a node, and a node takes tokens in the order of its grants. So tokens
// grow in the order of the grants.
func NextToken(clock int64, seen uint64) uint64 {
	return max(uint64(max(clock, 0)), seen+1)
}

// TokenToBeat returns the largest of the need smallest fences. Need nodes take any token above it,
// so a node whose clock is far ahead cannot inflate tokens. It returns 0 if there are fewer than
// need fences, or need is below 1. It neither allocates nor reorders its argument.
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
