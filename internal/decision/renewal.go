package decision

import "time"

// minRetry keeps a failing renewal of a very short TTL from becoming a busy loop.
const minRetry = time.Millisecond

// NextRenewal returns when to renew a lease.
//
// With failed <= 0, sent is when the last confirmed renewal was sent. The next one is due TTL/3
// later, which leaves time for several retries. With failed = k > 0, sent is when the last of k
// failed rounds in a row was sent. The retry is due after max(1ms, min(TTL/30 * 2^(k-1), TTL/6)).
//
// Either delay is shortened by up to a tenth, in proportion to jitter in [0,1), so that leases
// taken together do not stay together. Jitter never makes a renewal later. The caller stops at
// ValidUntil: it sends no renewal after that.
func NextRenewal(sent, ttl time.Duration, failed int, jitter float64) time.Duration {
	ttl = max(ttl, 0)
	if failed <= 0 {
		return plus(sent, forward(ttl/3, jitter))
	}
	wait := forward(doubled(ttl/30, failed-1, ttl/6), jitter)
	return plus(sent, max(wait, minRetry))
}

const bunches = 128

// AlignToBunch returns when to renew a lease that is due at due: the last instant phase + k*TTL/128
// that is not after due. So leases with the same TTL renew in bunches, many in one message, and
// less than TTL/100 early. Each client has a phase of its own, so that clients do not coincide.
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

// portion returns jitter * d, with jitter forced into [0,1]: a bad source of randomness must not
// break a bound.
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

// doubled returns min(d * 2^times, limit). Shifting the limit down instead of d up cannot overflow.
func doubled(d time.Duration, times int, limit time.Duration) time.Duration {
	if d > limit>>times {
		return limit
	}
	return d << times
}
