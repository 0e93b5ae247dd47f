package quorumlock

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
)

// A node counts an id down, and later reports that the latch was deleted since. It has not counted
// the id in its present generation. The simulation found that the other nodes were given the id
// there.
func TestIDsAreOfOneGeneration(t *testing.T) {
	inside(t, 1, func(t *testing.T, c *Client, _ []*node.Memory) {
		r := &latchRound{
			call: &latchCall{latch: c.Latch("ready"), need: 1}, kind: node.Latch,
		}
		r.init(1)
		counts := &dispatch.Call{Op: &node.Op{Kind: node.Latch, Latch: &node.LatchOp{IDs: []string{"q"}}}}
		r.recordReply(counts, &node.Reply{Outcome: node.Granted, Latch: &node.LatchState{Count: 1, Since: 1}})
		assert.Equal(t, []string{"q"}, r.merged().IDs)

		mends := &dispatch.Call{Op: &node.Op{Kind: node.Latch, Latch: &node.LatchOp{Exact: true}}}
		r.recordReply(mends, &node.Reply{Outcome: node.Denied, Latch: &node.LatchState{Count: 1, Since: 1}})
		assert.Equal(t, []string{"q"}, r.merged().IDs, "it still has them")
		r.recordReply(mends, &node.Reply{Outcome: node.Denied, Latch: &node.LatchState{Generation: 5, Count: 1, Since: 6}})
		assert.Empty(t, r.merged().IDs, "it has others now, if any")
	})
}
