package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// The answer about a latch lists as many ids as its size says, each once and in order, if they were asked for.
func TestRedisListOfALatchFitsItsSize(t *testing.T) {
	op := func(ask wire.LatchOp) wire.Op {
		return wire.Op{Kind: wire.Latch, Names: []string{"a"}, TTL: long, Latch: &ask}
	}
	told := func(size int, ids ...any) string {
		return array(append([]any{1, 0, 9, 1, 1, 0, 0, size, 0, 0, 1}, ids...)...)
	}
	list, look := op(wire.LatchOp{List: true}), op(wire.LatchOp{})
	for _, c := range []struct {
		op     wire.Op
		answer string
		ids    int // -1 for a wrong answer
	}{
		{list, told(0), 0},
		{list, told(2, "x", "y"), 2},
		{look, told(2), 0},
		{list, told(5), -1},
		{list, told(2, "x"), -1},
		{list, told(1, "x", "y"), -1},
		{list, told(2, "y", "x"), -1},
		{list, told(2, "x", "x"), -1},
		{look, told(1, "x"), -1},
	} {
		n := open(t, redisproc.Serve(t, fake(always(c.answer))).Addr())
		if c.ids < 0 {
			garbled(t, n, c.op)
			continue
		}
		r := do(n, c.op)[0]
		require.NoError(t, r.Err, "%.60q", c.answer)
		require.Len(t, r.Latch.IDs, c.ids)
	}
}
