package decision_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestSetAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set decision.Set
		twin := make(map[int]bool)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, quorum.MaxNodes-1).Draw(t, "node")
			if rapid.Bool().Draw(t, "with") {
				set, twin[i] = set.With(i), true
			} else {
				set = set.Without(i)
				delete(twin, i)
			}
		}
		require.Equal(t, len(twin), set.Len())
		for i := range quorum.MaxNodes {
			require.Equal(t, twin[i], set.Has(i))
		}
		all := slices.Collect(set.All())
		require.True(t, slices.IsSorted(all))
		require.Len(t, all, len(twin))
		for _, i := range all {
			require.True(t, twin[i])
		}
	})
}

func TestSetStopsWhenAsked(t *testing.T) {
	for i := range decision.Set(0).With(2).With(5).All() {
		require.Equal(t, 2, i)
		break
	}
}
