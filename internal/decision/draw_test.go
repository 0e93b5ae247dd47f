package decision_test

import (
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"
)

const largest = time.Duration(math.MaxInt64)

// anyDuration draws durations that collide often, that are realistic, or that
// lie at the edges of the type.
func anyDuration() *rapid.Generator[time.Duration] {
	edges := []time.Duration{0, 1, -1, 99, 100, 101, largest, largest - 1, math.MinInt64, math.MinInt64 + 1, largest / 2}
	return rapid.OneOf(
		rapid.SampledFrom(edges),
		rapid.Map(rapid.Int64Range(-3, 8), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) }),
	)
}

// anyTTL draws TTLs from nothing to a day.
func anyTTL() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, 1000), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, int64(24*time.Hour)), func(n int64) time.Duration { return time.Duration(n) }),
	)
}

// anyJitter draws mostly valid jitters, and sometimes values that a bad source might give.
func anyJitter() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(0, math.Nextafter(1, 0)),
		rapid.Float64Range(0, math.Nextafter(1, 0)),
		rapid.SampledFrom([]float64{0, math.Nextafter(1, 0), 1, 2, -1, math.NaN(), math.Inf(1), math.Inf(-1)}),
	)
}

// sorted returns a sorted copy.
func sorted(ds []time.Duration) []time.Duration {
	c := slices.Clone(ds)
	slices.Sort(c)
	return c
}
