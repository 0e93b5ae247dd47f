package decision_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestNextRenewal(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name      string
		sent, ttl time.Duration
		failed    int
		jitter    float64
		want      time.Duration
	}{
		{"a third of the TTL", 0, 9 * time.Second, 0, 0, 3 * time.Second},
		{"after the sending", time.Hour, 9 * time.Second, 0, 0, time.Hour + 3*time.Second},
		{"brought forward", 0, 9 * time.Second, 0, 0.5, 2850 * ms},
		{"first retry", 0, 9 * time.Second, 1, 0, 300 * ms},
		{"second retry", 0, 9 * time.Second, 2, 0, 600 * ms},
		{"third retry", 0, 9 * time.Second, 3, 0, 1200 * ms},
		{"a sixth at most", 0, 9 * time.Second, 4, 0, 1500 * ms},
		{"a sixth for ever", 0, 9 * time.Second, math.MaxInt, 0, 1500 * ms},
		{"a retry brought forward", 0, 9 * time.Second, 1, 0.5, 285 * ms},
		{"at least a millisecond", 0, 20 * ms, 1, 0, ms},
		{"at least that without a TTL", 0, 0, 70, 0, ms},
		{"a negative TTL", 0, -time.Second, 1, 0, ms},
		{"a negative count", 0, 9 * time.Second, -1, 0, 3 * time.Second},
		{"the end of time", largest, 9 * time.Second, 0, 0, largest},
	} {
		require.Equal(t, tc.want, decision.NextRenewal(tc.sent, tc.ttl, tc.failed, tc.jitter), tc.name)
	}
}

// A lease whose renewals get no answer is retried several times before its end.
func TestNextRenewalLeavesRoomForRetries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "ttl"))
		until := decision.Expiry(0, ttl)
		tries := 0
		for at := decision.NextRenewal(0, ttl, 0, 0); at < until; at = decision.NextRenewal(at, ttl, tries, 0) {
			tries++
		}
		require.GreaterOrEqual(t, tries, 6)
		require.LessOrEqual(t, tries, 8)
	})
}
