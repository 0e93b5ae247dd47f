package node

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumerals(t *testing.T) {
	var n digitBuffer
	var got, want []string
	for v := uint64(1); v < math.MaxUint64/3; v *= 3 {
		got = append(got, n.unsigned(v), n.signed(-int64(v/2)), n.signed(int64(v/2)))
		want = append(want, strconv.FormatUint(v, 10), strconv.FormatInt(-int64(v/2), 10), strconv.FormatInt(int64(v/2), 10))
	}
	require.Equal(t, want, got, "what was written before stays")
	require.Equal(t, strconv.FormatInt(math.MinInt64, 10), n.signed(math.MinInt64))
	require.Equal(t, strconv.FormatUint(math.MaxUint64, 10), n.unsigned(math.MaxUint64))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		for v := range uint64(digitMemory / len(n.one)) {
			_ = n.unsigned(math.MaxUint64 - v)
		}
	}), 1.)
}
