package quorum

import (
	"math"
	"time"
)

// never is how long to wait for something that is not expected to happen.
const never = time.Duration(math.MaxInt64)

// Backoff returns how long to wait after the given attempt, counted from 0,
// before the next one, where no notification ends the wait. The span doubles
// with each attempt from least up to most, and the wait is half of the span
// and, in proportion to jitter in [0,1), up to the other half: "equal jitter",
// which keeps contenders apart and yet never makes one try again at once.
// So the first wait is from least/2 to least, and no wait is above most.
//
// A least below 1 ns counts as that, a most below least as least, and a
// negative attempt as 0.
func Backoff(attempt int, least, most time.Duration, jitter float64) time.Duration {
	least = max(least, 1)
	span := doubled(least, max(attempt, 0), max(most, least))
	half := span / 2
	return span - half + portion(half, jitter)
}

// FreeAfter returns how long it will take until need nodes can be expected to
// be free if nobody releases anything. told are the remaining TTLs that the
// denials told, one for each denying node, in any order, with those below
// zero counted as zero; free is the number of nodes that did not deny.
//
// It is 0 if enough nodes are free already, else the (need-free)-th smallest
// of told, and the largest Duration, meaning never, if told is too short for
// that. It neither allocates nor reorders its argument.
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
