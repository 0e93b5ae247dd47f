package nodetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

var inspecting = []promise{
	{"free names have no holder", func(x *trial) {
		r := x.want(node.Inspected, inspect("a", "b"))
		assert.Empty(x, r.Holders)
		x.keys()
	}},
	{"holders are told in the order of the names", func(x *trial) {
		a, c := x.token(), x.token()
		x.want(node.Granted, proposing(a, acquire("o1", middle, "a")), proposing(c, acquire("o2", long, "c")))
		r := x.want(node.Inspected, inspect("c", "b", "a"))
		require.Len(x, r.Holders, 2)
		x.holder(r.Holders[0], node.Holder{Name: "c", Owner: "o2", TTL: long, Token: c})
		x.holder(r.Holders[1], node.Holder{Name: "a", Owner: "o1", TTL: middle, Token: a})
	}},
	{"an expired name is free", func(x *trial) {
		x.want(node.Granted, acquire("o1", short, "a"))
		x.Pass(short)
		assert.Empty(x, x.want(node.Inspected, inspect("a")).Holders)
	}},
	{"nothing is changed", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a"))
		x.want(node.Inspected, inspect("a", "b"))
		x.lives(brief, "a")
		x.denied(acquire("o2", long, "a"), "a", "o1")
		x.keys("a")
	}},
}

// holder requires a holder whose TTL was want.TTL a moment ago.
func (x *trial) holder(got, want node.Holder) {
	x.Helper()
	assert.LessOrEqual(x, got.TTL, want.TTL)
	assert.Greater(x, got.TTL, want.TTL-slack)
	got.TTL = want.TTL
	assert.Equal(x, want, got)
}
