package nodetest

import (
	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

var releasing = []promise{
	{"an own name is free afterwards", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "b"))
		x.want(node.Released, release("o1", "a", "b"))
		x.keys()
		x.want(node.Granted, acquire("o2", long, "a"))
	}},
	{"another's name is left alone", func(x *trial) {
		x.want(node.Granted, acquire("o1", middle, "a"))
		x.want(node.Absent, release("o2", "a"))
		x.lives(middle, "a")
		x.denied(acquire("o2", long, "a"), "a", "o1")
	}},
	{"an absent name is reported as Absent", func(x *trial) {
		x.want(node.Absent, release("o1", "a"))
		x.keys()
	}},
	{"an expired name is reported as Absent", func(x *trial) {
		x.want(node.Granted, acquire("o1", short, "a"))
		x.Pass(short)
		x.want(node.Absent, release("o1", "a"))
	}},
	{"of own, another's and absent names the own ones go", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "d"), acquire("o2", long, "b"))
		assert.True(x, x.want(node.Released, release("o1", "b", "c", "a", "d")).Partial)
		x.keys("b")
	}},
	{"a release tells whether it removed all of the names", func(x *trial) {
		for _, kind := range []func(node.Op) node.Op{func(op node.Op) node.Op { return op }, reading} {
			x.answered(node.Granted, x.do(kind(acquire("o1", long, "a", "b")))[0])
			assert.False(x, x.want(node.Released, kind(release("o1", "a", "b"))).Partial)
			x.answered(node.Granted, x.do(kind(acquire("o1", long, "a", "b")))[0])
			assert.False(x, x.want(node.Released, kind(release("o1", "b"))).Partial)
			assert.True(x, x.want(node.Released, kind(release("o1", "a", "b"))).Partial)
			assert.False(x, x.want(node.Absent, kind(release("o1", "a", "b"))).Partial)
		}
		x.want(node.Granted, take(4, "o1", 0, 1))
		assert.False(x, x.want(node.Released, give(4, "o1", 0)).Partial)
		assert.True(x, x.want(node.Released, give(4, "o1", 0, 1)).Partial)
	}},
	{"a late release does not touch the next owner", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, release("o1", "a"))
		x.want(node.Granted, acquire("o2", long, "a"))
		x.want(node.Absent, release("o1", "a"))
		x.keys("a")
	}},
	{"some of several names can be released", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "b"))
		x.want(node.Released, release("o1", "a"))
		x.keys("b")
	}},
}
