package node

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// isImplausible is the rule of the scripts in Go. It reports whether a node whose clock is at now, in microseconds, must refuse the tokens from
// first to end. It accepts tokens that are younger than MaxTTL, and at most MaxClockSkew ahead. So after a
// recovery it accepts only tokens larger than all that it ever accepted.
func isImplausible(first, end uint64, now int64, l wire.Limits) bool {
	return instant(end) > now+l.MaxClockSkew.Microseconds() || instant(first) <= now-l.MaxTTL.Microseconds()
}

// mayFence is the rule of the scripts in Go. It reports whether a renewal raises the fence along with the lock. It does as long as an acquisition
// could still use a smaller token, provided that the token is plausible.
func mayFence(token uint64, now int64, l wire.Limits) bool {
	t := instant(token)
	return t <= now+l.MaxClockSkew.Microseconds() && t > now-l.Recovery().Microseconds()
}

func TestUnitsDoNotOverflow(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0: 0, 1: time.Microsecond, -1: -time.Microsecond,
		math.MaxInt64: math.MaxInt64 / 1000 * 1000, math.MinInt64: -(math.MaxInt64 / 1000 * 1000),
	} {
		assert.Equal(t, want, micro(n))
	}
	for n, want := range map[int64]time.Duration{
		0: 0, 1: time.Millisecond, -1: 0, math.MinInt64: 0, math.MaxInt64: math.MaxInt64 / 1_000_000 * 1_000_000,
	} {
		assert.Equal(t, want, milli(n))
	}
}
