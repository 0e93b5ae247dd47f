package decision_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestBackoff(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name        string
		attempt     int
		least, most time.Duration
		jitter      float64
		want        time.Duration
	}{
		{"half of the least is fixed", 0, 10 * ms, time.Second, 0, 5 * ms},
		{"half is random", 0, 10 * ms, time.Second, 0.5, 7500 * time.Microsecond},
		{"doubled", 1, 10 * ms, time.Second, 0, 10 * ms},
		{"doubled often", 6, 10 * ms, time.Second, 0, 320 * ms},
		{"up to the most", 7, 10 * ms, time.Second, 0, 500 * ms},
		{"however often", math.MaxInt, 10 * ms, time.Second, 0, 500 * ms},
		{"a negative attempt is the first", math.MinInt, 10 * ms, time.Second, 0, 5 * ms},
		{"the most below the least", 3, 10 * ms, ms, 0, 5 * ms},
		{"an odd span", 0, 5, 5, 0, 3},
		{"no least", 0, 0, time.Second, 0, 1},
		{"a negative least", 2, -time.Second, time.Second, 0, 2},
		{"no bounds at all", 9, 0, 0, 0, 1},
		{"the largest", 70, largest, largest, 1, largest},
		{"jitter too large", 0, 10 * ms, time.Second, 7, 10 * ms},
		{"jitter that is no number", 0, 10 * ms, time.Second, math.NaN(), 5 * ms},
	} {
		require.Equal(t, tc.want, decision.Backoff(tc.attempt, tc.least, tc.most, tc.jitter), tc.name)
	}
}

func TestFreeAfter(t *testing.T) {
	for _, tc := range []struct {
		name       string
		told       []time.Duration
		free, need int
		want       time.Duration
	}{
		{"free already", []time.Duration{9}, 2, 2, 0},
		{"more than free", nil, 3, 2, 0},
		{"one is missing", []time.Duration{9, 4}, 1, 2, 4},
		{"two are missing", []time.Duration{9, 4, 7}, 1, 3, 7},
		{"all deny", []time.Duration{9, 4, 7}, 0, 3, 9},
		{"equal ones", []time.Duration{4, 4, 4}, 0, 2, 4},
		{"too few told", []time.Duration{4}, 0, 2, largest},
		{"nothing told", nil, 0, 1, largest},
		{"over already", []time.Duration{-5, 9}, 1, 2, 0},
		{"for ever", []time.Duration{largest, 3}, 0, 2, largest},
	} {
		given := slices.Clone(tc.told)
		require.Equal(t, tc.want, decision.FreeAfter(tc.told, tc.free, tc.need), tc.name)
		require.Equal(t, given, tc.told, "the argument is left as it was")
		require.Zero(t, testing.AllocsPerRun(10, func() { decision.FreeAfter(tc.told, tc.free, tc.need) }), tc.name)
	}
}
