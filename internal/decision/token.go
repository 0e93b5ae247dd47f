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
	return nthLargest(fences, len(fences)-need+1)
}

// ReadToken returns the token under which a reader acts. fences are the fences of the nodes that
// granted, out of n nodes. It returns 0 while they are too few. It neither allocates nor reorders its
// argument.
//
// Every writer's token is on a majority of the nodes that its client lists, which may be one more or one
// less than here (see [ListsAgree]). So it is on half of the n nodes at least, and at most n/2 lack it. A fence
// that is at least as large as n/2+1 of the given fences is therefore at least as large as every earlier
// writer's token. ReadToken returns the smallest such fence. With fences of all nodes, half of them already
// have it.
//
// A reader's token is on a majority too, by a write-back if necessary. So no later reader acts under
// a smaller one.
func ReadToken(fences []uint64, n int) uint64 {
	rank := len(fences) - n/2
	if rank < 1 {
		return 0
	}
	return nthLargest(fences, rank)
}

// Block returns how many tokens directly after token a client may reserve along with it. The result
// is at most most, and no reserved token exceeds clock, in microseconds since the Unix epoch.
//
// clock should be the client's clock plus a short time, far less than the clocks may differ. A
// later proposal that has to exceed the block is then ahead of the clock by little more than that.
func Block(clock int64, token uint64, most int) uint64 {
	last := uint64(max(clock, 0))
	if last <= token || most <= 0 {
		return 0
	}
	return min(last-token, uint64(most))
}
