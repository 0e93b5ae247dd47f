package decision

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node rejects each proposal with a token just above it. If the other nodes are enough, the next proposal is
// larger than their fences, and does not only follow this node.
func TestRaisePrefersNodesWhoseFencesStayTheSame(t *testing.T) {
	for _, c := range []struct {
		name string
		// second and last are the answers to the second proposal. second comes from the other node
		// with a large fence, and last from the node that rejects all.
		second, last Answer
		above        uint64
	}{
		{"the others are enough", Answer{Vote: Granted, Known: 1000}, Answer{Vote: Granted, Known: 13}, 1000},
		{"the answer may be the second of two runs", Answer{Vote: Granted, Known: 1000}, Answer{Vote: Granted, Known: 13, Repeated: true}, 13},
		{"too few others are left", Answer{Vote: Unknown}, Answer{Vote: Granted, Known: 13}, 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := NewProposal(3, 2, false, 5, 5)
			round := func(answers ...Answer) (above uint64) {
				for i := range p.Begin().All() {
					p.Sent(i)
					p.Answered(i)
					answers[i].Proposed, answers[i].Fence = p.Token, answers[i].Known
					p.Answer(i, answers[i])
				}
				require.True(t, p.NeedsHigherToken())
				p.Raise(func(a uint64) uint64 {
					above = a
					return NextToken(0, a)
				})
				return above
			}
			require.EqualValues(t, 11, round(
				Answer{Vote: Granted, Known: 10}, Answer{Vote: Granted, Known: 1000}, Answer{Vote: Granted, Known: 11}))
			require.Equal(t, c.above, round(Answer{Vote: Granted}, c.second, c.last))
		})
	}
}
