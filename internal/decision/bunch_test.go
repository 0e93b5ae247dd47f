package decision_test

import (
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestBunch(t *testing.T) {
	const ttl = 128 * time.Second // so that bunches are a second apart
	for _, c := range []struct{ due, phase, want time.Duration }{
		{0, 0, 0},
		{999 * time.Millisecond, 0, 0},
		{time.Second, 0, time.Second},
		{1999 * time.Millisecond, 0, time.Second},
		{1999 * time.Millisecond, 400 * time.Millisecond, 1400 * time.Millisecond},
		{1499 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond},
		{100 * time.Millisecond, 500 * time.Millisecond, -500 * time.Millisecond},
	} {
		require.Equal(t, c.want, decision.AlignToBunch(c.due, ttl, c.phase), "%v after %v", c.due, c.phase)
	}
	require.Equal(t, 77*time.Nanosecond, decision.AlignToBunch(77, 127, 0), "too short to be divided")
}

// An aligned renewal is never late, less than TTL/100 early, and the same for all nearby renewals.
func TestBunchIsSoon(t *testing.T) {
	require.NoError(t, quick.Check(func(due, phase uint32, ttl uint16) bool {
		life := time.Duration(ttl) * time.Millisecond
		at := decision.AlignToBunch(time.Duration(due), life, time.Duration(phase))
		again := decision.AlignToBunch(at, life, time.Duration(phase))
		return at <= time.Duration(due) && time.Duration(due)-at <= life/100 && again == at
	}, nil))
}
