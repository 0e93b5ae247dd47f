package quorum

import "time"

// minRetry keeps a very short TTL from turning a failing renewal into a busy
// loop.
const minRetry = time.Millisecond

// NextRenewal returns the instant at which a lease is to be renewed.
//
// With failed at 0 (or less), sent is when the last renewal was sent that a
// quorum confirmed, and the next is due a third of the TTL after it, which
// leaves time for several retries. With failed at k > 0, sent is when the
// last of k failed rounds in a row was sent, and the retry is due after a
// thirtieth of the TTL, doubling with each failure up to a sixth, and at
// least 1 ms.
//
// Either delay is brought forward by up to a tenth, in proportion to jitter
// in [0,1), so that leases taken together do not stay together. Jitter never
// makes a renewal later. The caller stops at ValidUntil: no renewal is sent
// after it.
func NextRenewal(sent, ttl time.Duration, failed int, jitter float64) time.Duration {
	ttl = max(ttl, 0)
	if failed <= 0 {
		return plus(sent, forward(ttl/3, jitter))
	}
	wait := forward(doubled(ttl/30, failed-1, ttl/6), jitter)
	return plus(sent, max(wait, minRetry))
}

// bunches is how many there are in a TTL.
const bunches = 128

// AlignToBunch returns the instant at which a lease is renewed that is due then: the last one not
// after it of those that lie a 128th of the TTL apart, one of them at phase. So leases with
// one TTL renew in bunches, many to a message, each of them earlier than it had to by less
// than a hundredth of its TTL. Clients have phases of their own, so as not to come together.
func AlignToBunch(due, ttl, phase time.Duration) time.Duration {
	grain := ttl / bunches
	if grain <= 0 {
		return due
	}
	late := (due - phase) % grain
	if late < 0 {
		late += grain
	}
	return due - late
}

// forward shortens wait by up to a tenth.
func forward(wait time.Duration, jitter float64) time.Duration {
	return wait - portion(wait/10, jitter)
}

// portion returns jitter times d, for a jitter that is forced into [0,1]: a
// bad source of randomness must not be able to break a bound.
func portion(d time.Duration, jitter float64) time.Duration {
	switch {
	case jitter >= 1:
		return d
	case jitter > 0: // not so for NaN
		return min(time.Duration(jitter*float64(d)), d)
	default:
		return 0
	}
}

// doubled returns d doubled so many times, at most limit. Shifting the limit
// down instead of d up cannot overflow, however many times it is.
func doubled(d time.Duration, times int, limit time.Duration) time.Duration {
	if d > limit>>times {
		return limit
	}
	return d << times
}
