package node_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// The answer about a latch lists the ids that its size promises. A client would ask a node that lists fewer for the
// rest, again and again.
func TestRedisListOfALatchFitsItsSize(t *testing.T) {
	op := func(ask node.LatchOp) node.Op {
		return node.Op{Kind: node.Latch, Names: []string{"a"}, TTL: long, Latch: &ask}
	}
	told := func(size int, ids ...any) string {
		return array(append([]any{1, 0, 9, 1, 1, 0, 0, size, 0, 0, 1}, ids...)...)
	}
	many := make([]any, node.MaxListed+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	from := func(i int) node.Op { return op(node.LatchOp{List: true, From: i}) }
	for _, c := range []struct {
		op     node.Op
		answer string
		ids    int // -1 for a wrong answer
	}{
		{from(0), told(0), 0},
		{from(0), told(2, "x", "y"), 2},
		{from(1), told(2, "y"), 1},
		{from(5), told(2), 0},
		{from(0), told(5000, many[1:]...), node.MaxListed},
		{op(node.LatchOp{}), told(2), 0},
		{from(0), told(5), -1},
		{from(0), told(2, "x"), -1},
		{from(0), told(1, "x", "y"), -1},
		{from(2), told(2, "y"), -1},
		{from(0), told(5000, many...), -1},
		{op(node.LatchOp{}), told(1, "x"), -1},
	} {
		n := open(t, newFront(t, fake(always(c.answer))).addr())
		if c.ids < 0 {
			garbled(t, n, c.op)
			continue
		}
		r := do(n, c.op)[0]
		require.NoError(t, r.Err, "%.60q", c.answer)
		require.Len(t, r.Latch.IDs, c.ids)
	}
}
