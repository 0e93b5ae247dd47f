package nodetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

var forcing = []promise{
	{"holders lose their names, and are told", func(x *trial) {
		x.want(node.Granted, acquire("o1", middle, "a"))
		x.want(node.Granted, acquire("o2", long, "b"))
		x.want(node.Granted, acquire("o3", long, "d"))
		r := x.want(node.Released, force(long, "b", "c", "a"))
		require.Len(x, r.Holders, 2)
		x.holder(r.Holders[0], node.Holder{Name: "b", Owner: "o2", TTL: long})
		x.holder(r.Holders[1], node.Holder{Name: "a", Owner: "o1", TTL: middle})
		x.keys("d")
	}},
	{"free names are absent", func(x *trial) {
		x.want(node.Absent, force(long, "a", "b"))
		x.keys()
		x.want(node.Healed, renew("o1", long, "a"))
	}},
	{"all holders are buried", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Granted, acquire("o2", long, "b"))
		x.want(node.Released, force(long, "a", "b"))
		x.denied(renew("o1", long, "a"), "a", "")
		x.denied(renew("o2", long, "b"), "b", "")
		x.keys()
	}},
	{"a tombstone is for one name and one owner", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Healed, renew("o1", long, "b"))
		x.want(node.Healed, renew("o2", long, "a"))
		x.keys("a", "b")
	}},
	{"others may take the name at once", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Granted, acquire("o2", long, "a"))
		x.denied(renew("o1", long, "a"), "a", "o2")
		x.want(node.Granted, renew("o2", long, "a"))
		x.want(node.Released, release("o2", "a"))
		x.denied(renew("o1", long, "a"), "a", "")
	}},
	{"owners that only other nodes know are buried", func(x *trial) {
		x.want(node.Granted, acquire("o3", long, "b"))
		r := x.want(node.Released, burying(force(long, "a", "b"), "o1", "o2"))
		require.Len(x, r.Holders, 1)
		assert.Equal(x, "o3", r.Holders[0].Owner)
		for _, name := range []string{"a", "b"} {
			x.denied(renew("o1", long, name), name, "")
			x.denied(renew("o2", long, name), name, "")
		}
		x.denied(renew("o3", long, "b"), "b", "")
		x.want(node.Healed, renew("o3", long, "a"))
	}},
	{"owners are buried where the name is free", func(x *trial) {
		x.want(node.Absent, burying(force(long, "a"), "o1"))
		x.denied(renew("o1", long, "a"), "a", "")
		x.keys()
	}},
	{"a second forced release does not lift the first", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Granted, acquire("o2", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Absent, burying(force(long, "a"), "o3"))
		for _, owner := range []string{"o1", "o2", "o3"} {
			x.denied(renew(owner, long, "a"), "a", "")
		}
	}},
	{"a tombstone ends after its TTL", func(x *trial) {
		x.want(node.Granted, acquire("o1", short, "a"))
		x.want(node.Released, burying(force(short, "a"), "o2"))
		x.Pass(short)
		x.want(node.Healed, renew("o1", long, "a"))
		x.want(node.Released, release("o1", "a"))
		x.want(node.Healed, renew("o2", long, "a"))
	}},
	{"a tombstone lasts as long as its lock would have", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(short, "a"))
		x.Pass(short)
		x.denied(renew("o1", long, "a"), "a", "")
	}},
	{"release ignores tombstones", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "b"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Released, release("o1", "a", "b"))
		x.keys()
	}},
}
