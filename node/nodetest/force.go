package nodetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

var forcing = []promise{
	{"holders lose their names, and are told", func(x *trial) {
		x.want(node.Granted, acquire("o1", middle, "a"), acquire("o2", long, "b"), acquire("o3", long, "d"))
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
	{"all holders get a tombstone", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"), acquire("o2", long, "b"))
		x.want(node.Released, force(long, "a", "b"))
		x.denied(renew("o1", long, "a"), "a", "")
		x.denied(renew("o2", long, "b"), "b", "")
		x.keys()
	}},
	{"a tombstone is for one name and one owner", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Healed, renew("o1", long, "b"), renew("o2", long, "a"))
		x.keys("a", "b")
	}},
	{"others may take the name at once", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Granted, acquire("o2", long, "a"), renew("o2", long, "a"))
		x.want(node.Released, release("o2", "a"))
		x.denied(renew("o1", long, "a"), "a", "")
	}},
	{"a holder that was forced off is told so, whoever holds the name now", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Granted, acquire("o2", long, "a"))
		x.denied(renew("o1", long, "a"), "a", "")
		x.denied(renew("o3", long, "a"), "a", "o2")
		x.want(node.Granted, renew("o2", long, "a"))
	}},
	{"a tombstone of any name comes before the holder of any name", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "b"))
		x.want(node.Released, force(long, "b"), release("o1", "a"))
		x.want(node.Granted, acquire("o2", long, "a", "b"))
		x.denied(renew("o1", long, "a", "b"), "b", "")
		x.denied(renew("o3", long, "a", "b"), "a", "o2")
	}},
	{"readers and writers that were forced off are told so, whoever holds the name now", func(x *trial) {
		x.gets(read("o1", long, "a"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Granted, acquire("o2", long, "a"))
		x.denied(keep("o1", long, "a"), "a", "")
		x.denied(keep("o4", long, "a"), "a", "o2")
		x.want(node.Released, force(long, "a"))
		x.gets(read("o3", long, "a"))
		x.denied(keep("o1", long, "a"), "a", "")
		x.denied(renew("o2", long, "a"), "a", "")
		x.denied(keep("o2", long, "a"), "a", "")
	}},
	{"many renewals in one exchange are told so, too", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"), acquire("o1", long, "b"))
		x.want(node.Released, force(long, "a"))
		x.want(node.Granted, acquire("o2", long, "a"))
		r := x.do(renew("o1", long, "a"), renew("o1", long, "b"))
		require.Equal(x, node.Denied, r[0].Outcome)
		assert.Equal(x, node.Holder{Name: "a"}, r[0].Holder)
		assert.Equal(x, node.Granted, r[1].Outcome)
	}},
	{"owners that only other nodes know get a tombstone", func(x *trial) {
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
	{"listed owners get a tombstone even if the name is free", func(x *trial) {
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
		replies := x.do(acquire("o1", short, "a"), burying(force(short, "a"), "o2")) // together, before the TTL ends
		x.answered(node.Granted, replies[0])
		x.answered(node.Released, replies[1])
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
	{"one owner loses its names, and others keep theirs", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"), acquire("o1", long, "c"), acquire("o2", long, "b"))
		r := x.want(node.Released, from("o1", force(long, "a", "b", "c", "d")))
		require.Len(x, r.Holders, 2)
		x.holder(r.Holders[0], node.Holder{Name: "a", Owner: "o1", TTL: long})
		x.holder(r.Holders[1], node.Holder{Name: "c", Owner: "o1", TTL: long})
		x.keys("b")
		for _, name := range []string{"a", "b", "c", "d"} {
			x.denied(renew("o1", long, name), name, "")
		}
		x.want(node.Granted, renew("o2", long, "b"))
	}},
	{"an owner gets a tombstone even if it holds nothing", func(x *trial) {
		x.want(node.Granted, acquire("o2", long, "a"))
		x.want(node.Absent, burying(from("o1", force(long, "a", "b")), "o3"))
		x.denied(renew("o1", long, "a"), "a", "")
		x.denied(renew("o3", long, "b"), "b", "")
		x.want(node.Granted, renew("o2", long, "a"))
	}},
	{"readers keep a name that one owner loses", func(x *trial) {
		x.gets(read("o1", long, "a"))
		x.gets(read("o2", long, "a"))
		x.want(node.Absent, from("o3", force(long, "a")), from(node.Readers, force(long, "a")), from("o2", force(long, "a")))
		x.want(node.Granted, keep("o1", long, "a"))
	}},
	{"release ignores tombstones", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a", "b"))
		x.want(node.Released, force(long, "a"), release("o1", "a", "b"))
		x.keys()
	}},
}
