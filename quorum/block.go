package quorum

// Block returns how many tokens directly behind one may be reserved along with it: at most
// so many, and none that is ahead of a clock, in microseconds since the Unix epoch. The
// clock is to be that of the client plus a moment, far less than what clocks may be apart:
// whoever has to outbid the block later is held up by no more than that.
func Block(clock int64, token uint64, most int) uint64 {
	last := uint64(max(clock, 0))
	if last <= token || most <= 0 {
		return 0
	}
	return min(last-token, uint64(most))
}
