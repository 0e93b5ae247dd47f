package nodetest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

func shorten(names ...string) node.Op { return shortenTo(brief, names...) }

func shortenTo(rest time.Duration, names ...string) node.Op {
	return node.Op{Kind: node.Shorten, Names: names, Owner: "o1", TTL: rest}
}

var shortening = []promise{
	{"own names live for the rest at most", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"), acquire("o1", slack, "b"))
		x.want(node.Released, shorten("a", "b"), shorten("a", "b"))
		x.lives(brief, "a")
		x.lives(slack, "b")
	}},
	{"a late or repeated one prolongs nothing", func(x *trial) {
		x.want(node.Granted, acquire("o1", short, "a"))
		x.want(node.Released, shorten("a"))
		x.Pass(short)
		x.want(node.Absent, shorten("a"))
		x.keys()
	}},
	{"another's name and an absent one are left alone, and counted", func(x *trial) {
		x.want(node.Granted, acquire("o2", long, "a"))
		x.want(node.Absent, shorten("a", "b"))
		x.lives(long, "a")
		x.want(node.Granted, acquire("o1", long, "b"))
		assert.True(x, x.want(node.Released, shorten("a", "b")).Partial)
		x.lives(brief, "b")
		x.denied(acquire("o3", long, "a"), "a", "o2")
	}},
	{"a reader's names live for the rest at most, or as long as other readers", func(x *trial) {
		x.gets(read("o1", long, "a", "b"), read("o2", middle, "b"), read("o2", slack, "a"))
		x.want(node.Released, shorten("a", "b"))
		assert.LessOrEqual(x, x.denied(acquire("o3", long, "a"), "a", node.Readers).TTL, brief)
		assert.Greater(x, x.denied(acquire("o3", long, "b"), "b", node.Readers).TTL, brief)
		x.readers("b", "o1", "o2")
	}},
	{"slots live for the rest at most", func(x *trial) {
		x.want(node.Granted, take(4, "o1", 0))
		x.want(node.Released, shorten(take(4, "o1", 0).Names...))
		x.lives(brief, take(4, "o1", 0).Names...)
	}},
}
