package decision

import (
	"math"
	"time"
)

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// Backoff returns how long to wait between the given attempt, counted from 0, and the next, if no
// notification ends the wait. The span is min(least * 2^attempt, most), and the wait is span/2 +
// jitter * span/2, with jitter in [0,1). This "equal jitter" separates contenders, and yet none of
// them retries at once. So the first wait is in [least/2, least], and no wait is above most.
//
// A least below 1 ns counts as 1 ns, a most below least as least, and a negative attempt as 0.
func Backoff(attempt int, least, most time.Duration, jitter float64) time.Duration {
	least = max(least, 1)
	span := doubled(least, max(attempt, 0), max(most, least))
	half := span / 2
	return span - half + portion(half, jitter)
}

// FreeAfter returns how long it takes until need nodes are free if no holder releases. The entries
// of told are the remaining TTLs from the denials, one for each node that denied, in any order.
// Negative ones count as 0. The argument free is the number of nodes that did not deny.
//
// The result is 0 if enough nodes are free already, else the (need-free)-th smallest of told. If
// told has too few entries, it is the largest Duration: never. FreeAfter neither allocates nor
// reorders its argument.
func FreeAfter(told []time.Duration, free, need int) time.Duration {
	if free >= need {
		return 0
	}
	missing := need - free
	if missing > len(told) {
		return Never
	}
	return max(nthLargest(told, len(told)-missing+1), 0)
}

// How long a waiter holds back for earlier waiters.
const (
	// standbyDelay is how long the second waiter gives the first to take a free lock.
	standbyDelay = 30 * time.Millisecond
	// turn is how long a free lock stays reserved for a woken waiter at least.
	turn = 50 * time.Millisecond
	// spread separates the attempts of waiters that wait for the same expiry, by rank.
	spread = 2 * time.Millisecond
)

// Forecast estimates when enough nodes are free for a waiter's next attempt. It uses only
// messages and answers since the last attempt. All times are local. It is not safe for
// concurrent use.
type Forecast struct {
	need int
	// grace is how long after the first release the other nodes may take to report theirs.
	grace time.Duration
	// releasedAt is when a node first reported a release since the last attempt; never if none has.
	releasedAt time.Duration
	// heard is the earliest time at which each node may be free by its messages, and expected is that
	// time by its latest answer.
	heard, expected []time.Duration
}

// NewForecast returns the forecast of a waiter that needs need of n nodes. The first attempt
// is due at once.
func NewForecast(n, need int) Forecast {
	times := make([]time.Duration, 2*n)
	return Forecast{need: need, releasedAt: Never, heard: times[:n], expected: times[n:]}
}

// StartAttempt records that an attempt is sent, and discards everything older. A holder
// releases on all nodes at the same time. So after the first report of a release, the other
// nodes get grace to report theirs: the time that most nodes need for an answer.
func (f *Forecast) StartAttempt(grace time.Duration) {
	f.releasedAt, f.grace = Never, grace
	for i := range f.heard {
		f.heard[i], f.expected[i] = Never, Never
	}
}

// Denied records that the lock is held on node i until the given time, unless the holder
// renews it, and that rank other waiters are ahead there. A release reported since the
// attempt is newer than the denial even if it arrived first: they use two connections.
func (f *Forecast) Denied(i int, until time.Duration, rank int) {
	f.expected[i] = After(until, time.Duration(max(rank, 0))*spread)
}

// Reserved records that node i is free but reserved, until the given time, for the first of
// rank waiters ahead of this one. With several of them, the second takes over when the first
// does not come. So this waiter also leaves the second its turn.
func (f *Forecast) Reserved(i int, until time.Duration, rank int) {
	f.expected[i] = After(until, time.Duration(min(max(rank-1, 0), 1))*turn)
}

// Free records that node i is free for the waiter: a contender gave a grant back there, or other
// slots are free.
func (f *Forecast) Free(i int, now time.Duration) {
	f.hear(i, now)
}

// Woken records that node i reported a release, and that this waiter is first there.
func (f *Forecast) Woken(i int, now time.Duration) {
	f.hear(i, now)
	f.releasedAt = min(f.releasedAt, now)
}

// Standby records that the lock was released on node i, and that this waiter is near the head there.
func (f *Forecast) Standby(i int, now time.Duration) {
	f.hear(i, After(now, standbyDelay))
}

func (f *Forecast) hear(i int, at time.Duration) { f.heard[i] = min(f.heard[i], at) }

// freeAt returns when node i may be free.
func (f *Forecast) freeAt(i int) time.Duration { return min(f.heard[i], f.expected[i]) }

// NextAttempt returns when to make the next attempt: as soon as need nodes are expected to be
// free, or the grace after the first release has passed.
func (f *Forecast) NextAttempt() time.Duration {
	next := After(f.releasedAt, f.grace)
	if f.need < 1 || f.need > len(f.heard) {
		return next
	}
	for i := range f.heard {
		// The need-th smallest, without sorting.
		if at := f.freeAt(i); at < next && f.readyBy(at, i) == f.need-1 {
			next = at
		}
	}
	return next
}

// readyBy counts the nodes expected to be free before node i, which is expected at the given
// time. Nodes expected at the same time count in the order of their indexes.
func (f *Forecast) readyBy(at time.Duration, i int) int {
	n := 0
	for j := range f.heard {
		if other := f.freeAt(j); other < at || other == at && j < i {
			n++
		}
	}
	return n
}

// After returns at + d, or [Never] if that overflows.
func After(at, d time.Duration) time.Duration {
	if at > Never-d {
		return Never
	}
	return at + d
}
