package node

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

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

func TestTokenRefused(t *testing.T) {
	l := wire.Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}
	const now = 1_700_000_000_000_000
	for token, want := range map[int64]bool{
		0: true, 1: true, now - 10_000_001: true, now - 10_000_000: true, now - 9_999_999: false, now: false,
		now + 1_000_000: false, now + 1_000_001: true, math.MaxInt64: true, math.MinInt64: true, -1: true,
	} {
		assert.Equal(t, want, isImplausible(uint64(token), uint64(token), now, l), "%d", token-now)
	}
	for end, want := range map[uint64]bool{
		now: false, now + 1_000_000: false, now + 1_000_001: true, math.MaxInt64: true, 1 << 63: true, math.MaxUint64: true,
	} {
		assert.Equal(t, want, isImplausible(now, end, now, l), "%d", end)
	}
	assert.True(t, isImplausible(now-10_000_000, now, now, l), "the end does not make the first younger")
	for token, want := range map[int64]bool{
		0: false, now - 11_000_001: false, now - 11_000_000: false, now - 10_999_999: true, now - 10_000_000: true, now: true,
		now + 1_000_000: true, now + 1_000_001: false, math.MaxInt64: false, math.MinInt64: false, -1: false,
	} {
		assert.Equal(t, want, mayFence(uint64(token), now, l), "%d", token-now)
	}
}

// The safety of tokens rests on this arithmetic. The node refuses a token a recovery after a later
// loss, or a recovery after the token itself. Until then a renewal restores its fence.
func TestTokenIsPastWhenItIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := wire.Limits{
			MaxTTL:       time.Duration(rapid.IntRange(1, 1000).Draw(t, "MaxTTL")) * time.Millisecond,
			MaxClockSkew: time.Duration(rapid.IntRange(0, 1000).Draw(t, "MaxClockSkew")) * time.Millisecond,
		}
		const began = int64(1_700_000_000_000_000)
		window := (l.MaxTTL + 2*l.MaxClockSkew).Microseconds()
		token := uint64(began + rapid.Int64Range(-window, window).Draw(t, "token"))
		end := token + rapid.Uint64Range(0, uint64(window)).Draw(t, "reserve")
		if isImplausible(token, end, began, l) {
			return
		}
		loss := began + rapid.Int64Range(0, window).Draw(t, "loss")
		later := rapid.Int64Range(0, window).Draw(t, "later")
		assert.True(t, isImplausible(end, end, loss+l.Recovery().Microseconds()+later, l), "after a recovery")
		assert.True(t, isImplausible(end, end, int64(end)+l.Recovery().Microseconds()+later, l), "after its fence")
		if !isImplausible(end, end, loss, l) {
			assert.True(t, mayFence(end, loss, l), "while it could be taken, a renewal raises the fence to it")
		}
	})
}

func TestReasonOfRefusal(t *testing.T) {
	for want, err := range map[error]error{
		ErrRecovering: &RecoveryError{},
		ErrSettings:   fmt.Errorf("what: %w", &SettingsError{}),
		ErrClock:      &ClockError{},
		nil:           errors.New("else"),
	} {
		assert.Equal(t, want, reasonOfRefusal(err))
	}
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
