package nodetest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

func resume(owner string, token uint64, ttl time.Duration, names ...string) node.Op {
	return node.Op{Kind: node.Resume, Names: names, Owner: owner, Token: token, TTL: ttl}
}

// holds takes names for an owner, and returns the token.
func (x *trial) holds(owner string, ttl time.Duration, names ...string) (token uint64) {
	x.Helper()
	token = x.token()
	x.want(node.Granted, proposing(token, acquire(owner, ttl, names...)))
	return token
}

// doubted requires that a node denies to resume an owner's own lock, which has this token there.
func (x *trial) doubted(op node.Op, token uint64) {
	x.Helper()
	assert.Equal(x, token, x.denied(op, op.Names[0], op.Owner).Token)
}

var resuming = []promise{
	{"the owner's names get the TTL, and no shorter one", func(x *trial) {
		token := x.holds("o1", brief, "a", "b")
		x.want(node.Granted, resume("o1", token, middle, "a", "b"))
		x.lives(middle, "a", "b")
		x.want(node.Granted, resume("o1", token, slack, "a", "b"))
		x.lives(middle, "a", "b")
		x.want(node.Granted, resume("o1", token, long, "b"))
		x.lives(middle, "a")
		x.lives(long, "b")
		x.want(node.Granted, renew("o1", long, "a"))
	}},
	{"an absent name is not put back, and no other extended", func(x *trial) {
		x.want(node.Absent, resume("o1", x.token(), long, "a"))
		token := x.holds("o1", brief, "a")
		x.want(node.Absent, resume("o1", token, long, "a", "b"))
		x.lives(brief, "a")
		x.keys("a")
		x.want(node.Released, release("o1", "a"))
		x.want(node.Absent, resume("o1", token, long, "a"))
		x.keys()
	}},
	{"another owner is named, with its token", func(x *trial) {
		token := x.holds("o1", brief, "a")
		later := x.holds("o2", brief, "b")
		assert.Equal(x, later, x.denied(resume("o1", token, long, "a", "b"), "b", "o2").Token)
		x.lives(brief, "a", "b")
		x.answered(node.Granted, x.do(reading(acquire("o3", long, "c")))[0])
		x.denied(resume("o3", token, long, "c"), "c", node.Readers)
	}},
	{"another token is denied", func(x *trial) {
		token := x.holds("o1", brief, "a")
		x.doubted(resume("o1", token+1, long, "a"), token)
		x.doubted(resume("o1", token-1, long, "a"), token)
		x.lives(brief, "a")
	}},
	{"an owner that was forced off is told so", func(x *trial) {
		token := x.holds("o1", long, "a")
		x.want(node.Released, from("o1", force(long, "a")))
		x.denied(resume("o1", token, long, "a"), "a", "")
		x.want(node.Granted, acquire("o2", long, "a"))
		x.denied(resume("o1", token, long, "a"), "a", "")
	}},
	{"a lock that a late renewal has put back proves nothing", func(x *trial) {
		token := x.holds("o1", long, "a")
		x.want(node.Released, release("o1", "a"))
		x.holds("o2", long, "a")
		x.want(node.Released, release("o2", "a"))
		x.want(node.Healed, proposing(token, renew("o1", brief, "a")))
		x.doubted(resume("o1", token, long, "a"), token)
		x.lives(brief, "a")
	}},
	{"and one of many", func(x *trial) {
		token := x.holds("o1", long, "a")
		x.want(node.Released, release("o1", "a"))
		x.holds("o2", long, "a")
		x.want(node.Released, release("o2", "a"))
		r := x.do(proposing(token, renew("o1", brief, "a")), acquire("o3", brief, "b"))
		x.answered(node.Healed, r[0])
		x.doubted(resume("o1", token, long, "a"), token)
	}},
	{"nor does one that a late acquisition has taken", func(x *trial) {
		token := x.token()
		later := x.holds("o2", long, "a", "b", "c", "d")
		x.want(node.Released, release("o2", "a", "b", "c", "d"))
		for _, name := range []string{"a", "d"} {
			r := x.do(proposing(token, acquire("o1", brief, name)))[0] // by the short way
			x.answered(node.Granted, r)
			assert.Equal(x, later, r.Token)
			x.doubted(resume("o1", token, long, name), token)
		}
		x.answered(node.Granted, x.do(proposing(token, acquire("o1", brief, "b", "c")))[0])
		x.doubted(resume("o1", token, long, "b", "c"), token)
		r := x.do(proposing(token, acquire("o1", brief, "a")), acquire("o3", brief, "e"))
		x.answered(node.Granted, r[0])
		x.doubted(resume("o1", token, long, "a"), token)
		// The second round of an acquisition takes a larger token.
		higher := x.token()
		x.want(node.Granted, proposing(higher, acquire("o1", brief, "a")), resume("o1", higher, long, "a"))
	}},
	{"a renewal of a lost lock suffices if no later owner had it", func(x *trial) {
		token := x.holds("o1", long, "a")
		x.want(node.Released, release("o1", "a"))
		x.want(node.Healed, proposing(token, renew("o1", brief, "a")))
		x.want(node.Granted, resume("o1", token, long, "a"))
		old := token - uint64((x.limits.Recovery() + time.Second).Microseconds()) // without a fence
		x.want(node.Healed, proposing(old, renew("o2", brief, "b")))
		x.doubted(resume("o2", old, long, "b"), old)
	}},
	{"a repeated acquisition changes nothing", func(x *trial) {
		token := x.holds("o1", long, "a")
		r := x.do(proposing(token, acquire("o1", long, "a")))[0]
		x.answered(node.Granted, r)
		x.want(node.Granted, resume("o1", token, long, "a"))
	}},
	{"a recovering node extends nothing", func(x *trial) {
		token := x.holds("o1", brief, "a")
		x.Restart()
		r := x.fails(node.ErrRecovering, resume("o1", token, long, "a"))
		require.Positive(x, r.Recovering)
		assert.True(x, r.HadMarker)
		x.lives(brief, "a")
	}},
	{"other limits and a longer TTL are refused", func(x *trial) {
		token := x.holds("o1", long, "a")
		x.fails(node.ErrSettings, resume("o1", token, x.limits.MaxTTL+time.Millisecond, "a"))
		x.fails(node.ErrSettings, under(fleeting, resume("o1", token, short, "a")))
		x.lives(long, "a")
	}},
}

var resumingAfterRecovery = []promise{
	{"a node does not prove a lock from before its recovery", func(x *trial) {
		x.open(fleeting)
		token := x.token()
		x.do(proposing(token, acquire("o1", fleeting.MaxTTL, "a"))) // a slow machine may be too late
		x.Restart()
		for left := time.Hour; left > 0; { // a holder keeps it over the recovery
			r := x.do(proposing(token, renew("o1", fleeting.MaxTTL, "a")))[0]
			left = r.Recovering
			x.Pass(min(left, time.Millisecond))
		}
		r := x.do(resume("o1", token, fleeting.MaxTTL, "a"))[0]
		require.NoError(x, r.Err)
		assert.NotEqual(x, node.Granted, r.Outcome)
	}},
}
