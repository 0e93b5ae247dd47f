package decision

import (
	"math"
	"time"
)

// never stands for a time that is not expected to come.
const never = time.Duration(math.MaxInt64)

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
	after := never
	for _, t := range told {
		t = max(t, 0)
		if t < after && free+countUpTo(told, t) >= need {
			after = t
		}
	}
	return after
}

// countUpTo returns how many of ds are at or below most.
func countUpTo(ds []time.Duration, most time.Duration) int {
	return len(ds) - countFrom(ds, most+1)
}
