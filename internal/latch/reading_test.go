package latch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
)

// refusing returns one node, which is asked nothing.
func refusing() *dispatch.Nodes {
	n := dispatch.New([]node.Node{node.NewMemory("n1", nil)}, dispatch.Env{})
	n.Close()
	return n
}

// listed makes a round of one refusing node, which has answered the first operation of a reading.
func listed(goal int, s *node.LatchState) (r *round, news bool) {
	l := &Latches{env: Env{Tokens: noTokens{}, Nodes: refusing()}, need: 1}
	r = &round{call: &Call{latches: l, name: "ready"}, kind: node.Latch}
	r.init(1)
	r.nodes[0].goal = goal
	ask := &node.LatchOp{List: true}
	r.begun[ask] = reading{number: 1, first: true}
	c := &dispatch.Call{Op: &node.Op{Kind: node.Latch, Latch: ask}}
	return r, r.recordReply(c, &node.Reply{Outcome: node.Granted, Latch: s})
}

// A node has listed the first of its ids, and is not asked for the rest, as its queue is full. A read that
// took the part for all would find confirmed count-downs missing.
func TestPartOfTheIDsIsNoAnswer(t *testing.T) {
	ids := make([]string, node.MaxListed)
	for i := range ids {
		ids[i] = fmt.Sprintf("%04d", i)
	}
	r, news := listed(0, &node.LatchState{Count: 3000, Since: 1, Size: 1500, IDs: ids})
	assert.True(t, news, "no other answer will come")
	assert.False(t, r.answers[0].Told)
	assert.ErrorIs(t, r.nodes[0].err, node.ErrClosed)
}

// A node lost its memory between two readings of a round, and another round has noticed that. The new reading
// ends with the ids that the node has now.
func TestGoalOfAReadingIsOfOneMemory(t *testing.T) {
	r, news := listed(5, &node.LatchState{Count: 5, Since: 9, Size: 1, IDs: []string{"q"}})
	assert.True(t, news)
	assert.Equal(t, 1, r.nodes[0].goal, "the node would be asked without end for ids that it has forgotten")
	require.NoError(t, r.nodes[0].err)
	assert.Equal(t, []string{"q"}, r.answers[0].IDs)
}

// A node that counts ids, and lists none of them, has not answered.
func TestNodeThatListsNothing(t *testing.T) {
	r, news := listed(0, &node.LatchState{Count: 5, Since: 1, Size: 3})
	assert.True(t, news)
	assert.False(t, r.answers[0].Told)
	assert.ErrorIs(t, r.nodes[0].err, node.ErrProtocol)
}
