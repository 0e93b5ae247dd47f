package decision

import (
	"cmp"
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
// reorders its argument.
func ValidUntil(expiries []time.Duration, need int) time.Duration {
	if need < 1 {
		return 0
	}
	return max(nthLargest(expiries, need), 0)
}

// Backing returns how many claims are active after now: the number of nodes that back the lease.
func Backing(expiries []time.Duration, now time.Duration) int {
	if now == math.MaxInt64 {
		return 0
	}
	return countFrom(expiries, max(now, 0)+1)
}

// nthLargest returns the n-th largest of the values, for n from 1, or zero if there are fewer. For as few values as there
// are nodes, its quadratic time is shorter than that of a sorted copy.
func nthLargest[T cmp.Ordered](values []T, n int) (nth T) {
	found := false
	for _, v := range values {
		if (!found || v > nth) && countFrom(values, v) >= n {
			nth, found = v, true
		}
	}
	return nth
}

// countFrom returns how many of the values are at or above least.
func countFrom[T cmp.Ordered](values []T, least T) (n int) {
	for _, v := range values {
		if v >= least {
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

// inlineNodes is the number of nodes up to which Claims need no memory of their own. Most
// deployments have no more.
const inlineNodes = 5

// Claims records the confirmations of one owner: for each node, until when its confirmation may be
// relied on, by local time. The claims decide until when a lease is valid.
//
// Use [NewClaims]; the zero value has no nodes. Claims must not be copied after their first use,
// and are not safe for concurrent use.
type Claims struct {
	nodes  int
	inline [inlineNodes]time.Duration
	more   []time.Duration
}

// NewClaims returns the claims on the given number of nodes, none of which has confirmed yet.
func NewClaims(nodes int) Claims {
	c := Claims{nodes: nodes}
	if nodes > inlineNodes {
		c.more = make([]time.Duration, nodes)
	}
	return c
}

// Nodes returns the number of nodes.
func (c *Claims) Nodes() int { return c.nodes }

func (c *Claims) expiries() []time.Duration {
	if c.more != nil {
		return c.more
	}
	return c.inline[:c.nodes]
}

// Confirm records that node i has confirmed the claim. The command was sent at the time sent, with
// this TTL, and the answer is processed at now. Confirm reports whether the answer counts.
//
// An answer of a recovering node counts only as a re-assertion: this owner's claim there must
// still be active. Such a node has forgotten to whom it gave the lock before. So its answer
// alone does not show that no other owner has a claim there. An active claim of this owner
// shows that.
//
// A confirmation never makes a claim end earlier, in any order of the answers.
func (c *Claims) Confirm(i int, sent, ttl, now time.Duration, recovering bool) bool {
	e := &c.expiries()[i]
	if recovering && *e <= now {
		return false
	}
	*e = max(*e, Expiry(sent, ttl))
	return true
}

// Drop records that node i does not have the claim. Its earlier confirmations are void.
func (c *Claims) Drop(i int) { c.expiries()[i] = 0 }

// Expiry returns until when the claim on node i can be relied on; 0 if there is none.
func (c *Claims) Expiry(i int) time.Duration { return c.expiries()[i] }

// ValidUntil returns until when at least need claims are active. See the function [ValidUntil].
func (c *Claims) ValidUntil(need int) time.Duration { return ValidUntil(c.expiries(), need) }

// Backing returns how many claims are active after now.
func (c *Claims) Backing(now time.Duration) int { return Backing(c.expiries(), now) }

// NextLapse returns when the next active claim ends, or the largest Duration if none is active.
func (c *Claims) NextLapse(now time.Duration) time.Duration {
	next := time.Duration(1<<63 - 1)
	for _, e := range c.expiries() {
		if e > now {
			next = min(next, e)
		}
	}
	return next
}
