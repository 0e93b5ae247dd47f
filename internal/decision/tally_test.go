package decision_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

var votes = []decision.Vote{decision.Missing, decision.Granted, decision.Denied, decision.Unknown}

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

// tallyTwin is a tally that is too simple to be wrong.
type tallyTwin struct {
	nodes, need int
	votes       map[int]decision.Vote
}

func (w *tallyTwin) record(i int, v decision.Vote) bool {
	if _, voted := w.votes[i]; voted || i < 0 || i >= w.nodes {
		return false
	}
	if v != decision.Granted && v != decision.Denied && v != decision.Unknown {
		return false
	}
	w.votes[i] = v
	return true
}

func (w *tallyTwin) count(v decision.Vote) int {
	n := 0
	for i := range w.nodes {
		if w.votes[i] == v {
			n++
		}
	}
	return n
}

func (w *tallyTwin) result() decision.Result {
	if w.count(decision.Granted) >= w.need {
		return decision.Won
	}
	if w.count(decision.Denied)+w.count(decision.Unknown) > w.nodes-w.need {
		return decision.Lost
	}
	return decision.Pending
}

func requireTwins(t require.TestingT, tally *decision.Tally, twin *tallyTwin) {
	require.Equal(t, twin.count(decision.Granted), tally.Granted())
	require.Equal(t, twin.count(decision.Denied), tally.Denied())
	require.Equal(t, twin.count(decision.Unknown), tally.Unknown())
	require.Equal(t, twin.count(decision.Missing), tally.Missing())
	require.Equal(t, twin.nodes, tally.Nodes())
	require.Equal(t, twin.need, tally.Need())
	require.Equal(t, twin.result(), tally.Result(), "%s", tally)
	if twin.need <= twin.nodes {
		blocked := twin.count(decision.Denied) > twin.nodes-twin.need
		require.Equal(t, blocked, tally.Blocked(), "%s", tally)
	}
	if tally.Blocked() {
		require.Equal(t, decision.Lost, tally.Result(), "%s", tally)
	}
	for i := range twin.nodes {
		require.Equal(t, twin.votes[i], tally.Vote(i), "node %d", i)
	}
}

func TestTallyTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, quorum.MaxNodes).Draw(t, "nodes")
		need := rapid.IntRange(1, n+2).Draw(t, "need")
		tally := decision.NewTally(n, need)
		twin := &tallyTwin{nodes: n, need: need, votes: map[int]decision.Vote{}}
		decided := tally.Result()
		for range rapid.IntRange(0, 2*n).Draw(t, "steps") {
			node := rapid.IntRange(-2, n+1).Draw(t, "node")
			vote := rapid.SampledFrom(append(votes, decision.Vote(4))).Draw(t, "vote")
			require.Equal(t, twin.record(node, vote), tally.Record(node, vote))
			requireTwins(t, &tally, twin)
			if decided != decision.Pending {
				require.Equal(t, decided, tally.Result(), "a decision stands")
			}
			decided = tally.Result()
		}
	})
}
