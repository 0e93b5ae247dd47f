package decision_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestBlock(t *testing.T) {
	for _, c := range []struct {
		clock int64
		token uint64
		most  int
		want  uint64
	}{
		{clock: 1000, token: 900, most: 50, want: 50},
		{clock: 1000, token: 900, most: 100, want: 100},
		{clock: 1000, token: 900, most: 256, want: 100},
		{clock: 1000, token: 999, most: 256, want: 1},
		{clock: 1000, token: 1000, most: 256, want: 0},
		{clock: 1000, token: 5000, most: 256, want: 0},
		{clock: 1000, token: 900, most: 0, want: 0},
		{clock: 1000, token: 900, most: -1, want: 0},
		{clock: -1, token: 1, most: 256, want: 0},
		{clock: math.MinInt64, token: 1, most: 256, want: 0},
		{clock: math.MaxInt64, token: 1, most: math.MaxInt, want: math.MaxInt64 - 1},
		{clock: math.MaxInt64, token: math.MaxUint64, most: math.MaxInt, want: 0},
	} {
		assert.Equal(t, c.want, decision.Block(c.clock, c.token, c.most), "%+v", c)
	}
}

// A block is as large as allowed, and no larger. A client that proposes the time after the end of
// the block needs no second round.
func TestBlockTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := rapid.OneOf(rapid.Int64Range(-3, 1000), rapid.Int64()).Draw(t, "clock")
		token := rapid.OneOf(rapid.Uint64Range(1, 1000), rapid.Uint64()).Draw(t, "token")
		most := rapid.OneOf(rapid.IntRange(-3, 1000), rapid.Int()).Draw(t, "most")
		n := decision.Block(clock, token, most)
		mayBe := func(n uint64) bool {
			return most >= 0 && n <= uint64(most) && clock >= 0 && token <= uint64(clock) && n <= uint64(clock)-token
		}
		assert.True(t, n == 0 || mayBe(n))
		assert.False(t, mayBe(n+1))
		if n > 0 && clock < math.MaxInt64 {
			assert.Equal(t, uint64(clock)+1, decision.NextToken(clock+1, token+n))
		}
	})
}
