package decision

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
