package nodetest

import (
	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

var renewing = []promise{
	{"an own name lives for another TTL", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a", "b"), renew("o1", long, "a", "b"))
		x.lives(long, "a", "b")
	}},
	{"a TTL is never shortened", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"), acquire("o1", brief, "b"), renew("o1", middle, "a", "b"))
		x.lives(long, "a")
		x.lives(middle, "b")
	}},
	{"an absent name is put back, with a TTL", func(x *trial) {
		x.want(node.Healed, renew("o1", long, "a", "b"))
		x.lives(long, "a", "b")
		x.denied(acquire("o2", long, "b"), "b", "o1")
		x.keys("a", "b")
	}},
	{"a name that has expired is put back", func(x *trial) {
		x.want(node.Granted, acquire("o1", short, "a"))
		x.Pass(short)
		x.want(node.Healed, renew("o1", long, "a"))
		x.lives(long, "a")
	}},
	{"one absent name of several is put back, the others extended", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a", "c"))
		x.want(node.Healed, renew("o1", long, "a", "b", "c"))
		x.lives(long, "a", "b", "c")
	}},
	{"another's name is denied, naming the holder", func(x *trial) {
		x.want(node.Granted, acquire("o1", middle, "a"))
		h := x.denied(renew("o2", long, "a"), "a", "o1")
		assert.LessOrEqual(x, h.TTL, middle)
		assert.Greater(x, h.TTL, middle-slack)
		x.lives(middle, "a")
	}},
	{"another's name among several: nothing is changed", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a"), acquire("o2", brief, "b"))
		for _, names := range [][]string{{"a", "c", "b"}, {"b", "a", "c"}, {"c", "b", "a"}} {
			x.denied(renew("o1", long, names...), "b", "o2")
			x.lives(brief, "a", "b")
			x.keys("a", "b")
		}
	}},
	{"an owner that was forced off is denied, without a holder", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		h := x.denied(renew("o1", long, "a"), "a", "")
		assert.Zero(x, h.TTL)
		x.keys()
	}},
	{"an owner that was forced off one of several: nothing is changed", func(x *trial) {
		x.want(node.Granted, acquire("o1", brief, "a", "b"))
		x.want(node.Released, force(long, "b"))
		for _, names := range [][]string{{"a", "c", "b"}, {"b", "a", "c"}} {
			x.denied(renew("o1", long, names...), "b", "")
			x.lives(brief, "a")
			x.keys("a")
		}
	}},
}
