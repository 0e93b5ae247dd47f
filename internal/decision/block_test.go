package decision_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

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
