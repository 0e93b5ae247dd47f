package nodetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// wrongType has the promises about a key of another type at the name of a lock.
var wrongType = []promise{
	{"acquire fails and changes nothing", func(x *trial) {
		x.Plant("p")
		for _, names := range [][]string{{"p"}, {"a", "p"}, {"p", "a"}} {
			x.permanently(node.ErrWrongType, acquire("o1", long, names...))
			x.keys()
		}
		x.want(node.Granted, acquire("o2", long, "a"))
	}},
	{"acquire leaves an own name as it was", func(x *trial) {
		x.Plant("p")
		x.want(node.Granted, acquire("o1", brief, "a"))
		x.permanently(node.ErrWrongType, acquire("o1", long, "a", "p"))
		x.lives(brief, "a")
	}},
	{"renew fails and changes nothing", func(x *trial) {
		x.Plant("p")
		x.want(node.Granted, acquire("o1", brief, "a"))
		for _, names := range [][]string{{"p"}, {"a", "b", "p"}, {"p", "a", "b"}} {
			x.permanently(node.ErrWrongType, renew("o1", long, names...))
			x.lives(brief, "a")
			x.keys("a")
		}
	}},
	{"inspect fails", func(x *trial) {
		x.Plant("p")
		x.want(node.Granted, acquire("o1", long, "a"))
		x.permanently(node.ErrWrongType, inspect("a", "p"))
		x.keys("a")
	}},
	{"force-release fails and changes nothing", func(x *trial) {
		x.Plant("p")
		x.want(node.Granted, acquire("o1", brief, "a"))
		for _, names := range [][]string{{"a", "p"}, {"p", "a"}} {
			x.permanently(node.ErrWrongType, burying(force(long, names...), "o2"))
			x.lives(brief, "a")
		}
		x.want(node.Granted, renew("o1", long, "a"))
		x.want(node.Released, release("o1", "a"))
		x.want(node.Healed, renew("o2", long, "a"))
	}},
	{"release removes the rest", func(x *trial) {
		x.Plant("p")
		x.want(node.Granted, acquire("o1", long, "a", "b"))
		x.want(node.Released, release("o1", "a", "p", "b"))
		x.want(node.Absent, release("o1", "p"))
		x.keys()
		x.permanently(node.ErrWrongType, inspect("p"))
	}},
	{"a key over a lock takes its place", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "p"))
		x.Plant("p")
		x.want(node.Absent, release("o1", "p"))
		x.permanently(node.ErrWrongType, inspect("p"))
	}},
	{"the rest of a batch runs", func(x *trial) {
		x.Plant("p")
		bad := acquire("o1", long, "p")
		replies := x.do(acquire("o1", long, "a"), bad, acquire("o1", long, "b"), release("o1", "a"))
		x.outcome(node.Granted, replies[0])
		x.failed(node.ErrWrongType, bad, replies[1])
		x.outcome(node.Granted, replies[2])
		x.outcome(node.Released, replies[3])
		x.keys("b")
	}},
}

// permanently requires a failure that is Permanent.
func (x *trial) permanently(reason error, op node.Op) {
	x.Helper()
	r := x.fails(reason, op)
	var err *node.Error
	require.ErrorAs(x, r.Err, &err)
	assert.True(x, err.Permanent())
}
