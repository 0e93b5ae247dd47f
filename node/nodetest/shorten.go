package nodetest

import (
	"time"

	"github.com/quorumlock/quorumlock/node"
)

func shorten(owner string, names ...string) node.Op { return shortenTo(brief, owner, names...) }

func shortenTo(ttl time.Duration, owner string, names ...string) node.Op {
	return node.Op{Kind: node.Shorten, Names: names, Owner: owner, TTL: ttl}
}

var shortening = []promise{
	{"own names get the TTL, whether it is shorter or longer", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Granted, acquire("o1", slack, "b"))
		x.want(node.Granted, shorten("o1", "a", "b"))
		x.lives(brief, "a")
		x.lives(brief, "b")
		x.want(node.Granted, renew("o1", middle, "a"))
		x.lives(middle, "a")
	}},
	{"another's name, a reader's and an absent one are left alone", func(x *trial) {
		x.want(node.Granted, acquire("o2", long, "a"))
		x.answered(node.Granted, x.do(reading(acquire("o1", long, "b")))[0])
		x.want(node.Granted, shorten("o1", "a", "b", "c"))
		x.lives(long, "a")
		x.denied(acquire("o3", long, "a"), "a", "o2")
		x.denied(acquire("o3", long, "b"), "b", node.Readers)
		x.lives(long, "b")
		x.want(node.Granted, acquire("o3", long, "c"))
	}},
	{"slots get the TTL", func(x *trial) {
		x.want(node.Granted, take(4, "o1", 0))
		x.want(node.Granted, shorten("o1", take(4, "o1", 0).Names...))
		x.lives(brief, take(4, "o1", 0).Names...)
	}},
}
