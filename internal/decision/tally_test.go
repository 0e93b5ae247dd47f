package decision_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestTallyRecordRefuses(t *testing.T) {
	tally := decision.NewTally(3, 2)
	require.True(t, tally.Record(1, decision.Denied))
	before := tally
	for _, tc := range []struct {
		name string
		node int
		vote decision.Vote
	}{
		{"a second vote", 1, decision.Granted},
		{"the same vote again", 1, decision.Denied},
		{"a missing vote", 0, decision.Missing},
		{"a vote that is none", 0, decision.Vote(4)},
		{"a negative node", -1, decision.Granted},
		{"the node after the last", 3, decision.Granted},
		{"a node beyond the bits", 64, decision.Granted},
		{"a node far beyond", math.MaxInt32, decision.Granted},
	} {
		require.False(t, tally.Record(tc.node, tc.vote), tc.name)
		require.Equal(t, before, tally, tc.name)
	}
	require.Equal(t, decision.Missing, tally.Vote(-1))
	require.Equal(t, decision.Missing, tally.Vote(3))
	require.Equal(t, decision.Missing, tally.Vote(64))
}

func TestTallyAllocatesNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(10, func() {
		tally := decision.NewTally(5, 3)
		_ = tally.Record(1, decision.Denied) && tally.Vote(1) == decision.Denied && tally.Result() == decision.Won && tally.Blocked()
	}))
}

func TestTallyThatCannotBeWon(t *testing.T) {
	var zero decision.Tally
	require.Equal(t, decision.Lost, zero.Result())
	require.False(t, zero.Blocked())
	require.False(t, zero.Record(0, decision.Granted))

	tooFew := decision.NewTally(2, 3)
	require.Equal(t, decision.Lost, tooFew.Result())
	require.False(t, tooFew.Blocked(), "no node denied")

	none := decision.NewTally(0, 1)
	require.Equal(t, decision.Lost, none.Result())
}

func TestNewTallyPanics(t *testing.T) {
	require.PanicsWithValue(t, "quorum: no tally for 1 of 65 nodes", func() { decision.NewTally(65, 1) })
	require.PanicsWithValue(t, "quorum: no tally for 1 of -1 nodes", func() { decision.NewTally(-1, 1) })
	require.PanicsWithValue(t, "quorum: no tally for 0 of 3 nodes", func() { decision.NewTally(3, 0) })
}

func TestTallyDecidesAsEarlyAsItCan(t *testing.T) {
	for _, c := range []struct {
		nodes, need              int
		granted, denied, unknown int
		result                   decision.Result
		blocked                  bool
	}{
		{5, 3, 2, 0, 0, decision.Pending, false},
		{5, 3, 3, 0, 0, decision.Won, false},
		{5, 3, 0, 2, 0, decision.Pending, false},
		{5, 3, 0, 1, 1, decision.Pending, false},
		{5, 3, 0, 2, 1, decision.Lost, false},
		{5, 3, 0, 3, 0, decision.Lost, true},
		{5, 3, 3, 1, 1, decision.Won, false},
		{4, 3, 0, 1, 0, decision.Pending, false},
		{4, 3, 0, 2, 0, decision.Lost, true},
		{3, 3, 2, 0, 1, decision.Lost, false},
		{3, 3, 0, 1, 0, decision.Lost, true},
	} {
		tally := decision.NewTally(c.nodes, c.need)
		for i := range c.granted + c.denied + c.unknown {
			vote := decision.Unknown
			if i < c.granted {
				vote = decision.Granted
			} else if i < c.granted+c.denied {
				vote = decision.Denied
			}
			require.True(t, tally.Record(i, vote))
			require.Equal(t, vote, tally.Vote(i))
		}
		require.Equal(t, c.result, tally.Result(), "%s", &tally)
		require.Equal(t, c.blocked, tally.Blocked(), "%s", &tally)
		require.Equal(t, []int{c.granted, c.denied, c.unknown}, []int{tally.Granted(), tally.Denied(), tally.Unknown()})
	}
}
