package quorum

import (
	"math"
	"time"
)

// driftFixed is the part of the drift that does not grow with the TTL: 1 ms
// for the precision with which Redis expires a key, and 1 ms of drift for
// small TTLs. These figures, and the 1%, are those of the reference
// implementation of Redlock.
const driftFixed = 2 * time.Millisecond

// Drift returns what is taken off a TTL because the clocks of the client and
// of the node may run at different rates: 1% of it, rounded up, and 2 ms. A
// negative TTL counts as zero.
func Drift(ttl time.Duration) time.Duration {
	percent := max(ttl, 0) / 100
	if ttl > percent*100 {
		percent++
	}
	return percent + driftFixed
}

// Expiry returns until when, by local time, a claim may be relied on that a
// node confirmed in answer to a command sent at sent: sent + ttl - Drift(ttl),
// within [0, the largest Duration]. It counts from the sending, not from the
// reply: the node may have started the TTL at any moment since then.
func Expiry(sent, ttl time.Duration) time.Duration {
	return max(plus(sent, plus(ttl, -Drift(ttl))), 0)
}

// ValidUntil returns until when a lease may be relied on whose claims expire
// at the given instants, one for each node: the need-th largest, since up to
// then that many claims are active. It returns 0, never valid, if fewer than
// need of them are positive or need is below 1.
//
// It is the only such rule, for acquisition, renewal and healing alike. It
// neither allocates nor reorders its argument, and takes quadratic time, which
// for the few nodes of a deployment beats a sorted copy.
func ValidUntil(expiries []time.Duration, need int) time.Duration {
	if need < 1 {
		return 0
	}
	var until time.Duration
	for _, e := range expiries {
		if e > until && countFrom(expiries, e) >= need {
			until = e
		}
	}
	return until
}

// Backing returns how many claims are still active after now, so how many
// nodes stand behind the lease.
func Backing(expiries []time.Duration, now time.Duration) int {
	if now == math.MaxInt64 {
		return 0
	}
	return countFrom(expiries, max(now, 0)+1)
}

// countFrom returns how many of ds are at or after least.
func countFrom(ds []time.Duration, least time.Duration) int {
	n := 0
	for _, d := range ds {
		if d >= least {
			n++
		}
	}
	return n
}

// plus adds two durations and stops at the largest and the smallest Duration
// instead of wrapping around.
func plus(a, b time.Duration) time.Duration {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
