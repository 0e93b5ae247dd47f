package decision

import (
	"math"
	"time"
)

// driftFixed is the part of the drift that does not grow with the TTL: 1 ms for the precision with
// which Redis expires keys, and 1 ms of drift for small TTLs. It and the 1% are the figures of the
// reference implementation of Redlock.
const driftFixed = 2 * time.Millisecond

// Drift returns the margin to subtract from a TTL, since the clocks of client and node may run at
// different rates: 1% of the TTL, rounded up, plus 2 ms. A negative TTL counts as 0.
func Drift(ttl time.Duration) time.Duration {
	percent := max(ttl, 0) / 100
	if ttl > percent*100 {
		percent++
	}
	return percent + driftFixed
}

// Expiry returns until when a confirmed claim may be relied on, by local time: sent + ttl -
// Drift(ttl), within [0, the largest Duration]. It counts from the sending, not from the reply: the
// node may have started the TTL at any time since then.
func Expiry(sent, ttl time.Duration) time.Duration {
	return max(plus(sent, plus(ttl, -Drift(ttl))), 0)
}

// TTLFor returns the shortest TTL in whole milliseconds that leaves d after its [Drift], or the
// largest Duration if there is none. A negative d counts as 0.
func TTLFor(d time.Duration) time.Duration {
	rest := plus(max(d, 0), driftFixed) // 99% of the TTL, rounded down, must be that
	ttl := plus(rest, plus(rest, 98)/99)
	if part := ttl % time.Millisecond; part > 0 {
		ttl = plus(ttl, time.Millisecond-part)
	}
	return ttl
}

// ValidUntil returns until when a lease may be relied on. expiries has the expiry of the claim on
// each node. The result is the need-th largest: until then, need claims are active. It returns 0,
// never valid, if fewer than need expiries are positive or need is below 1.
//
// Acquisition, renewal and healing all use this rule, and no other. It neither allocates nor
// reorders its argument. It takes quadratic time, which for few nodes is faster than a sorted copy.
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

// Backing returns how many claims are active after now: the number of nodes that back the lease.
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

// plus adds two durations, and saturates instead of wrapping around.
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
