package nodetest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

var batching = []promise{
	{"operations run in order", func(x *trial) {
		x.outcomes(
			x.do(
				acquire("o1", long, "a"),
				acquire("o2", long, "a"),
				release("o1", "a"),
				acquire("o2", long, "a"),
				renew("o1", long, "a"),
				force(long, "a"),
				renew("o2", long, "a"),
				acquire("o3", long, "a"),
				inspect("a"),
			),
			node.Granted, node.Denied, node.Released, node.Granted, node.Denied,
			node.Released, node.Denied, node.Granted, node.Inspected,
		)
		x.denied(acquire("o1", long, "a"), "a", "o3")
	}},
	{"a renewal ahead of the release leaves nothing", func(x *trial) {
		x.outcomes(x.do(renew("o1", long, "a"), release("o1", "a")), node.Healed, node.Released)
		x.keys()
	}},
	{"batches run in order", func(x *trial) {
		for range 20 {
			x.want(node.Granted, acquire("o1", long, "a"))
			x.want(node.Released, release("o1", "a"))
		}
		x.keys()
	}},
	{"an empty batch is harmless", func(x *trial) {
		x.do()
		x.want(node.Granted, acquire("o1", long, "a"))
	}},
	{"a large batch keeps the order", func(x *trial) { x.large(500) }},
	{"an operation on many names", func(x *trial) {
		names := make([]string, 1000)
		for i := range names {
			names[i] = fmt.Sprint("n", i)
		}
		x.want(node.Granted, acquire("o1", long, names...), renew("o1", long, names...))
		assert.Equal(x, "o1", x.want(node.Denied, acquire("o2", long, names...)).Holder.Owner)
		assert.Len(x, x.want(node.Inspected, inspect(names...)).Holders, len(names))
		x.want(node.Released, release("o1", names[:500]...))
		assert.Len(x, x.want(node.Released, force(long, names...)).Holders, 500)
		x.keys()
	}},
	{"the operations are only read", func(x *trial) {
		ops := func() []node.Op {
			return []node.Op{acquire("o1", long, "b", "a"), burying(force(long, "b", "a"), "o2"), release("o1", "b", "a")}
		}
		given := ops()
		x.do(given...)
		assert.Equal(x, ops(), given)
	}},
	{"a duplicate acquire changes nothing", func(x *trial) {
		token := x.token()
		op := proposing(token, acquire("o1", long, "a", "b"))
		x.want(node.Granted, op)
		for _, r := range x.do(op, op) {
			x.untaken(token, r)
		}
		x.keys("a", "b")
		x.lives(long, "a", "b")
	}},
	{"a duplicate denial changes nothing", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a"))
		op := acquire("o2", long, "b", "a")
		x.outcomes(x.do(op, op), node.Denied, node.Denied)
		x.lives(brief, "a")
		x.keys("a")
	}},
	{"a duplicate renewal changes nothing", func(x *trial) {
		token := x.token()
		op := proposing(token, renew("o1", long, "a"))
		x.outcomes(x.do(op, op), node.Healed, node.Granted)
		x.want(node.Granted, op)
		x.fence(token, "a")
		x.lives(long, "a")
		x.keys("a")
	}},
	{"a duplicate release changes nothing", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"), acquire("o2", long, "b"))
		op := release("o1", "a", "b")
		x.outcomes(x.do(op, op), node.Released, node.Absent)
		x.want(node.Absent, op)
		x.keys("b")
	}},
	{"a duplicate inspection tells the same", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a")))
		replies := x.do(inspect("a"), inspect("a"))
		for _, r := range replies {
			x.holder(r.Holders[0], node.Holder{Name: "a", Owner: "o1", TTL: long, Token: token})
		}
	}},
	{"a duplicate forced release changes nothing", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		op := burying(force(long, "a"), "o2")
		x.outcomes(x.do(op, op), node.Released, node.Absent)
		x.want(node.Absent, op)
		x.denied(renew("o1", long, "a"), "a", "")
		x.denied(renew("o2", long, "a"), "a", "")
		x.keys()
	}},
}

// large sends n pairs in one batch: odd names are released again, even names are denied to a second owner.
func (x *trial) large(n int) {
	var ops []node.Op
	var want []node.Outcome
	var kept []string
	for i := range n {
		name := fmt.Sprintf("n%03d", i)
		ops = append(ops, acquire("o1", long, name))
		want = append(want, node.Granted)
		if i%2 == 1 {
			ops = append(ops, release("o1", name))
			want = append(want, node.Released)
			continue
		}
		ops = append(ops, acquire("o2", long, name))
		want = append(want, node.Denied)
		kept = append(kept, name)
	}
	x.outcomes(x.do(ops...), want...)
	assert.Equal(x, kept, slices.Sorted(slices.Values(x.Keys())))
}
