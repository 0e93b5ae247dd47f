package nodetest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// reading makes the operation one of a reader.
func reading(op node.Op) node.Op {
	op.Reads = true
	return op
}

// read is an acquisition of a reader, keep a renewal, and close a release.
func read(owner string, ttl time.Duration, names ...string) node.Op {
	return reading(acquire(owner, ttl, names...))
}

func keep(owner string, ttl time.Duration, names ...string) node.Op {
	return reading(renew(owner, ttl, names...))
}

func unread(owner string, names ...string) node.Op { return reading(release(owner, names...)) }

// readsFor is the fair attempt of a waiting reader, whose id must be a ReaderID.
func readsFor(id string, ticket int64, names ...string) node.Op {
	return fair(waiting(reads(id), ticket, read("o of "+id, long, names...)))
}

func reads(id string) string { return node.ReaderID(id, calm) }

// calm is how long a name is left to the readers of the suite: so long that readers on a slow machine are not
// woken again.
const calm = 500 * time.Millisecond

// gets requires that readers get names, and returns the fence of the last.
func (x *trial) gets(ops ...node.Op) (fence uint64) {
	x.Helper()
	for _, op := range ops {
		r := x.do(op)[0]
		x.answered(node.Granted, r)
		assert.Zero(x, r.Recovering)
		assert.NotZero(x, r.Token)
		fence = r.Token
	}
	return fence
}

// readers requires that exactly these owners read a name, and that it has no other holder.
func (x *trial) readers(name string, owners ...string) {
	x.Helper()
	r := x.do(inspect(name))[0]
	x.answered(node.Inspected, r)
	var found []string
	for _, h := range r.Holders {
		assert.True(x, h.Reads, "%s writes", h.Owner)
		assert.Positive(x, h.TTL)
		found = append(found, h.Owner)
	}
	assert.ElementsMatch(x, owners, found)
}

// isReadForLong requires that the name a is read for about long, and not longer.
func (x *trial) isReadForLong() {
	x.Helper()
	h := x.denied(acquire("stranger", long, "a"), "a", node.Readers)
	assert.LessOrEqual(x, h.TTL, long)
	assert.Greater(x, h.TTL, long-slack)
}

// readAndWrite has the promises about names with readers.
var readAndWrite = []promise{
	{"any number of owners read a name, and none writes it", func(x *trial) {
		x.gets(read("r1", long, "a"), read("r2", long, "a"), read("r1", long, "a"))
		x.readers("a", "r1", "r2")
		x.keys("a")
		x.isReadForLong()
		x.denied(renew("w", long, "a"), "a", node.Readers)
		x.want(node.Absent, release("w", "a"), release("r1", "a"))
		x.readers("a", "r1", "r2")
	}},
	{"while a writer holds it, none reads it", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("w", long, "a")))
		h := x.denied(read("r", long, "a"), "a", "w")
		assert.Equal(x, token, h.Token)
		x.lives(long, "a")
		x.denied(keep("r", long, "a"), "a", "w")
		x.want(node.Absent, unread("r", "a"))
		x.want(node.Granted, renew("w", long, "a"))
		x.want(node.Released, release("w", "a"))
		x.gets(read("r", long, "a"))
	}},
	{"of several names all are read, or none", func(x *trial) {
		x.held("b")
		x.denied(read("r", long, "a", "b", "c"), "b", "o1")
		x.keys("b")
		x.want(node.Released, release("o1", "b"))
		x.gets(read("r", long, "a", "b", "c"))
		x.keys("a", "b", "c")
		x.want(node.Released, unread("r", "a", "b", "d"))
		x.keys("c")
	}},
	{"it is free when the last reader has gone", func(x *trial) {
		x.gets(read("r1", brief, "a"), read("r2", long, "a"))
		x.want(node.Released, unread("r2", "a"))
		x.want(node.Absent, unread("r2", "a"))
		x.readers("a", "r1")
		x.denied(acquire("w", long, "a"), "a", node.Readers)
		x.lives(brief, "a")
		x.want(node.Released, unread("r1", "a"))
		x.keys()
		x.want(node.Granted, acquire("w", long, "a"))
	}},
	{"each reader ends by itself", func(x *trial) {
		x.gets(read("r1", short, "a"), read("r2", long, "a"))
		x.isReadForLong()
		x.Pass(short)
		x.readers("a", "r2")
		x.want(node.Absent, unread("r1", "a"))
		x.want(node.Released, unread("r2", "a"))
		x.want(node.Granted, acquire("w", long, "a"))
	}},
	{"and the name with the one that lives longest", func(x *trial) {
		x.gets(read("r1", short, "a"), read("r2", short/2, "a"))
		x.Pass(short)
		x.want(node.Granted, acquire("w", long, "a"))
		x.want(node.Absent, unread("r1", "a"))
		x.readers("b")
		x.denied(keep("r2", long, "a"), "a", "w")
	}},
	{"a denied renewal names a writer rather than readers", func(x *trial) {
		x.want(node.Granted, acquire("w", long, "a", "b", "c"))
		x.want(node.Released, release("w", "a", "b", "c"))
		x.gets(read("r", long, "a"), read("r", long, "c"))
		x.want(node.Granted, acquire("next", long, "b"))
		x.denied(renew("w", long, "a", "b", "c"), "b", "next")
		x.want(node.Released, release("next", "b"))
		x.denied(renew("w", long, "a", "c"), "a", node.Readers)
	}},
	{"a renewal keeps one reader, and no other", func(x *trial) {
		x.gets(read("r1", brief, "a"), read("r2", short, "a"))
		x.want(node.Granted, keep("r1", long, "a"))
		x.Pass(short)
		x.readers("a", "r1")
		x.lives(long, "a")
	}},
	{"and never shortens a life", func(x *trial) {
		x.gets(read("r1", long, "a"))
		x.want(node.Granted, keep("r1", brief, "a"))
		x.gets(read("r1", brief, "a"), read("r2", brief, "a"))
		x.isReadForLong()
		r := x.want(node.Inspected, inspect("a"))
		require.Len(x, r.Holders, 2)
		assert.Greater(x, max(r.Holders[0].TTL, r.Holders[1].TTL), long-slack)
		assert.LessOrEqual(x, min(r.Holders[0].TTL, r.Holders[1].TTL), brief)
	}},
	{"it puts back what is absent, beside other readers too", func(x *trial) {
		token := x.token()
		x.want(node.Healed, proposing(token, keep("r1", brief, "a")))
		x.fence(token, "a")
		x.want(node.Healed, keep("r2", long, "a"))
		x.want(node.Granted, keep("r2", long, "a"))
		x.readers("a", "r1", "r2")
		x.isReadForLong()
		x.want(node.Healed, keep("r2", long, "a", "b"))
		x.want(node.Released, unread("r2", "a", "b"))
		x.lives(brief, "a")
	}},
	{"a writer becomes a reader, and others read too", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("w", long, "a")), proposing(token, keep("w", brief, "a")))
		x.lives(long, "a")
		x.readers("a", "w")
		x.want(node.Granted, proposing(token, keep("w", brief, "a")))
		x.denied(renew("w", long, "a"), "a", node.Readers)
		x.want(node.Absent, release("w", "a"))
		assert.Equal(x, token, x.gets(read("r", long, "a")))
		x.want(node.Released, unread("w", "a"))
		x.readers("a", "r")
	}},
	{"a reader's release also removes what the owner holds as a writer", func(x *trial) {
		x.want(node.Granted, acquire("w", long, "a"))
		x.want(node.Absent, unread("r", "a"))
		x.want(node.Released, unread("w", "a"))
		x.keys()
	}},
	{"a forced release drives all readers off", func(x *trial) {
		x.gets(read("r1", long, "a"), read("r2", long, "a"))
		r := x.want(node.Released, burying(force(long, "a"), "r3"))
		require.Len(x, r.Holders, 2)
		assert.True(x, r.Holders[0].Reads && r.Holders[1].Reads)
		x.keys()
		for _, owner := range []string{"r1", "r2", "r3"} {
			x.denied(keep(owner, long, "a"), "a", "")
		}
		x.gets(read("r4", long, "a"))
		x.denied(keep("r1", long, "a"), "a", "")
		x.want(node.Granted, keep("r4", long, "a"))
		x.readers("a", "r4")
	}},
	{"a node that lost its memory grants no reading, but renews readers", func(x *trial) {
		x.gets(read("r1", long, "a"))
		x.Forget()
		x.recovering(read("r2", long, "b"))
		x.reasserted(false, node.Healed, keep("r1", long, "a"))
		x.reasserted(false, node.Granted, keep("r1", long, "a"))
		x.recovering(read("r1", long, "a"))
		x.readers("a", "r1")
	}},
	{"and writers become readers there, whether it knows them or not", func(x *trial) {
		x.want(node.Granted, acquire("w1", long, "a"), acquire("w2", long, "b"))
		x.Restart()
		x.reasserted(true, node.Granted, keep("w1", long, "a"))
		x.Forget()
		x.reasserted(false, node.Healed, keep("w2", long, "b"))
		x.readers("a")
		x.readers("b", "w2")
	}},
	{"other limits are refused, and a TTL beyond them", func(x *trial) {
		other := others(limits)[0]
		x.differs(limits, under(other, read("r", other.MaxTTL/2, "a")))
		x.differs(limits, under(other, keep("r", other.MaxTTL/2, "a")))
		x.settings(read("r", limits.MaxTTL+time.Millisecond, "a"))
		x.settings(keep("r", limits.MaxTTL+time.Millisecond, "a"))
		x.keys()
	}},
	{"a key of another type fails, and nothing is changed", func(x *trial) {
		x.gets(read("r", long, "a"))
		x.Plant("b")
		x.fails(node.ErrWrongType, read("r2", long, "a", "b"))
		x.fails(node.ErrWrongType, keep("r2", long, "a", "b"))
		x.Plant("quorumlock:readers:{c}")
		x.fails(node.ErrWrongType, read("r2", long, "a", "c"))
		x.fails(node.ErrWrongType, keep("r2", long, "a", "c"))
		x.readers("a", "r")
		x.want(node.Released, unread("r", "b", "c", "a"))
		x.keys()
	}},
	{"a key of another type in place of the readers: a downgraded writer is still removed", func(x *trial) {
		x.want(node.Granted, acquire("w", long, "a", "b"))
		x.Plant("quorumlock:readers:{a}")
		x.fails(node.ErrWrongType, keep("w", long, "a", "b"))
		x.want(node.Absent, unread("other", "a", "b"))
		x.keys("a", "b")
		x.want(node.Released, unread("w", "a"))
		x.keys("b")
		x.want(node.Released, unread("w", "a", "b"))
		x.keys()
		x.want(node.Absent, unread("w", "a", "b"))
	}},
}
