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
