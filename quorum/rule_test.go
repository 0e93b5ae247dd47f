package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestRuleNeed(t *testing.T) {
	for _, tc := range []struct {
		rule  quorum.Rule
		nodes int
		want  int
	}{
		{quorum.Majority(), 1, 1},
		{quorum.Majority(), 2, 2},
		{quorum.Majority(), 3, 2},
		{quorum.Majority(), 4, 3},
		{quorum.Majority(), 5, 3},
		{quorum.Majority(), 64, 33},
		{quorum.All(), 1, 1},
		{quorum.All(), 5, 5},
		{quorum.AtLeast(4), 5, 4},
		{quorum.AtLeast(4), 6, 4},
	} {
		require.Equal(t, tc.want, tc.rule.Need(tc.nodes), "%s of %d", tc.rule, tc.nodes)
	}
}

func TestRuleValidate(t *testing.T) {
	for _, tc := range []struct {
		rule  quorum.Rule
		nodes int
		want  string // empty if the rule is fine
	}{
		{quorum.Majority(), 1, ""},
		{quorum.Majority(), quorum.MaxNodes, ""},
		{quorum.All(), 1, ""},
		{quorum.All(), quorum.MaxNodes, ""},
		{quorum.AtLeast(3), 5, ""},
		{quorum.AtLeast(5), 5, ""},
		{quorum.AtLeast(3), 4, ""},
		{quorum.Majority(), 0, "majority of 0 nodes: there must be at least one node"},
		{quorum.All(), -1, "all of -1 nodes: there must be at least one node"},
		{quorum.Majority(), 65, "majority of 65 nodes: there may be at most 64 nodes"},
		{quorum.AtLeast(2), 5, "at least 2 of 5 nodes: exclusion needs a majority, 3 or more"},
		{quorum.AtLeast(2), 4, "at least 2 of 4 nodes: exclusion needs a majority, 3 or more"},
		{quorum.AtLeast(0), 1, "at least 0 of 1 nodes: exclusion needs a majority, 1 or more"},
		{quorum.AtLeast(-1), 3, "at least -1 of 3 nodes: exclusion needs a majority, 2 or more"},
		{quorum.AtLeast(6), 5, "at least 6 of 5 nodes: there are not that many nodes"},
	} {
		err := tc.rule.Validate(tc.nodes)
		if tc.want == "" {
			require.NoError(t, err, "%s of %d", tc.rule, tc.nodes)
			continue
		}
		require.EqualError(t, err, "quorum: unusable rule: "+tc.want)
	}
}

// Any two sets of nodes that win share one. Exclusion rests on this, so it is checked for every
// number of nodes and every valid rule.
func TestRuleQuorumsIntersect(t *testing.T) {
	for n := 1; n <= quorum.MaxNodes; n++ {
		rules := []quorum.Rule{quorum.Majority(), quorum.All()}
		for q := -1; q <= n+1; q++ {
			rules = append(rules, quorum.AtLeast(q))
		}
		accepted := 0
		for _, r := range rules {
			if r.Validate(n) != nil {
				continue
			}
			accepted++
			require.Greater(t, 2*r.Need(n), n, "%s of %d", r, n)
			require.LessOrEqual(t, r.Need(n), n, "%s of %d", r, n)
		}
		require.Equal(t, 2+n-n/2, accepted, "rules for %d nodes", n)
	}
}

func TestRuleIsAComparableValue(t *testing.T) {
	var zero quorum.Rule
	require.NotEqual(t, quorum.Majority(), zero, "options can tell that it was not set")
	require.Equal(t, quorum.Majority().Need(5), zero.Need(5))
	seen := map[quorum.Rule]string{
		quorum.Majority(): "majority",
		quorum.All():      "all",
		quorum.AtLeast(4): "four",
		quorum.AtLeast(5): "five",
	}
	require.Len(t, seen, 4)
	require.Equal(t, "four", seen[quorum.AtLeast(4)])
}

func TestNames(t *testing.T) {
	require.Equal(t, "majority", quorum.Majority().String())
	require.Equal(t, "all", quorum.All().String())
	require.Equal(t, "at least 4", quorum.AtLeast(4).String())

	for want, v := range map[string]decision.Vote{
		"missing": decision.Missing, "granted": decision.Granted, "denied": decision.Denied,
		"unknown": decision.Unknown, "vote(9)": decision.Vote(9),
	} {
		require.Equal(t, want, v.String())
	}
	require.Zero(t, decision.Missing)
	require.Zero(t, decision.Pending)
}
