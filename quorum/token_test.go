package quorum_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/quorum"
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
		assert.Equal(t, c.want, quorum.NextToken(c.clock, c.seen), "%+v", c)
	}
}
