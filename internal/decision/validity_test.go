package decision_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
)

const largest = time.Duration(math.MaxInt64)

// anyTTL draws TTLs from nothing to a day.
func anyTTL() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, 1000), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.Map(rapid.Int64Range(0, int64(24*time.Hour)), func(n int64) time.Duration { return time.Duration(n) }),
	)
}

func TestDrift(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct{ ttl, want time.Duration }{
		{0, 2 * ms},
		{-time.Second, 2 * ms},
		{1, 2*ms + 1},
		{100, 2*ms + 1},
		{101, 2*ms + 2},
		{time.Second, 12 * ms},
		{10 * time.Second, 102 * ms},
		{largest, largest/100 + 1 + 2*ms},
	} {
		require.Equal(t, tc.want, decision.Drift(tc.ttl), "ttl %d", tc.ttl)
	}
}

func TestExpiry(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct{ sent, ttl, want time.Duration }{
		{0, 10 * time.Second, 9898 * ms},
		{time.Hour, 10 * time.Second, time.Hour + 9898*ms},
		{0, 2 * ms, 0},
		{0, ms, 0},
		{time.Hour, ms, time.Hour - ms - 10*time.Microsecond},
		{-time.Hour, time.Second, 0},
		{largest, 10 * time.Second, largest},
		{largest, largest, largest},
		{math.MinInt64, math.MinInt64, 0},
		{largest, math.MinInt64, 0},
	} {
		require.Equal(t, tc.want, decision.Expiry(tc.sent, tc.ttl), "sent %d, ttl %d", tc.sent, tc.ttl)
	}
}

func TestTTLFor(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct{ d, want time.Duration }{
		{0, 3 * ms},
		{-time.Hour, 3 * ms},
		{97 * ms, 100 * ms},
		{97*ms + 1, 101 * ms},
		{9898 * ms, 10 * time.Second},
		{largest - time.Hour, largest},
		{largest, largest},
	} {
		require.Equal(t, tc.want, decision.TTLFor(tc.d), "of %d", tc.d)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(365*24*time.Hour)).Draw(t, "d"))
		ttl := decision.TTLFor(d)
		require.Zero(t, ttl%ms)
		require.GreaterOrEqual(t, ttl-decision.Drift(ttl), d, "it suffices")
		require.Less(t, ttl-ms-decision.Drift(ttl-ms), d, "no shorter one does")
	})
}

func TestValidUntil(t *testing.T) {
	for _, tc := range []struct {
		name     string
		expiries []time.Duration
		need     int
		want     time.Duration
	}{
		{"no node", nil, 1, 0},
		{"one node", []time.Duration{7}, 1, 7},
		{"the second largest of three", []time.Duration{5, 9, 7}, 2, 7},
		{"all: the smallest", []time.Duration{5, 9, 7}, 3, 5},
		{"more than there are", []time.Duration{5, 9, 7}, 4, 0},
		{"a claim that there is not", []time.Duration{5, 0, -7}, 2, 0},
		{"claims that were over before the start", []time.Duration{-5, -7}, 2, 0},
		{"one that there is not, not needed", []time.Duration{5, 0, 7}, 2, 5},
		{"equal ones count each", []time.Duration{5, 5, 5}, 3, 5},
		{"equal ones above", []time.Duration{9, 9, 5}, 2, 9},
		{"no need", []time.Duration{5}, 0, 0},
		{"a negative need", []time.Duration{5}, -1, 0},
		{"the largest instant", []time.Duration{largest, largest}, 2, largest},
	} {
		given := slices.Clone(tc.expiries)
		require.Equal(t, tc.want, decision.ValidUntil(tc.expiries, tc.need), tc.name)
		require.Equal(t, given, tc.expiries, "the argument is left as it was")
		if tc.want > 0 {
			require.GreaterOrEqual(t, decision.Backing(tc.expiries, tc.want-1), tc.need, "valid until then")
			require.Less(t, decision.Backing(tc.expiries, tc.want), tc.need, "invalid from then on")
		}
		require.Zero(t, testing.AllocsPerRun(10, func() { decision.ValidUntil(tc.expiries, tc.need) }), tc.name)
	}
}

// A node's clock that runs up to 1% fast lets a key go early. A claim must have
// expired by then, wherever between sending and reply the node began to count.
func TestExpiryCoversAFastNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := anyTTL().Draw(t, "sent")
		ttl := anyTTL().Draw(t, "ttl")
		began := sent + anyTTL().Draw(t, "delay")
		rate := rapid.Float64Range(0.99, 1.01).Draw(t, "rate")
		gone := began + time.Duration(float64(ttl)/rate)
		require.LessOrEqual(t, decision.Expiry(sent, ttl), gone)
	})
}
