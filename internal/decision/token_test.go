package decision_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestNextToken(t *testing.T) {
	for _, c := range []struct {
		clock int64
		seen  uint64
		want  uint64
	}{
		{clock: 1000, seen: 0, want: 1000},
		{clock: 1000, seen: 998, want: 1000},
		{clock: 1000, seen: 999, want: 1000},
		{clock: 1000, seen: 1000, want: 1001},
		{clock: 1000, seen: 5000, want: 5001},
		{clock: 0, seen: 0, want: 1},
		{clock: -7, seen: 0, want: 1},
		{clock: math.MaxInt64, seen: 1, want: math.MaxInt64},
	} {
		assert.Equal(t, c.want, decision.NextToken(c.clock, c.seen), "%+v", c)
	}
}

func TestTokenToBeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fences := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(0, 4), rapid.Uint64()), 0, 9).Draw(t, "fences")
		need := rapid.IntRange(-1, 10).Draw(t, "need")
		before := slices.Clone(fences)
		got := decision.TokenToBeat(fences, need)
		assert.Equal(t, before, fences)
		if need < 1 || need > len(fences) {
			assert.Zero(t, got)
			return
		}
		slices.Sort(before)
		assert.Equal(t, before[need-1], got)
	})
}
