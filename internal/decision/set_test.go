package decision_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestSet(t *testing.T) {
	last := quorum.MaxNodes - 1
	set := decision.Set(0).With(5).With(last).With(0).With(5).With(9).Without(9).Without(9)
	require.Equal(t, []int{0, 5, last}, slices.Collect(set.All()))
	require.Equal(t, 3, set.Len())
	for i := range quorum.MaxNodes {
		require.Equal(t, i == 0 || i == 5 || i == last, set.Has(i))
	}
}

func TestSetStopsWhenAsked(t *testing.T) {
	for i := range decision.Set(0).With(2).With(5).All() {
		require.Equal(t, 2, i)
		break
	}
}
