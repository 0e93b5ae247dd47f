package nodetest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

// readFences has the promises about the tokens of readers.
var readFences = []promise{
	{"a reader is told the largest token of a writer, and raises nothing", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("w", long, "a")))
		x.want(node.Released, release("w", "a"))
		assert.Equal(x, token, x.gets(proposing(token+10, read("r1", long, "a"))))
		assert.Equal(x, token, x.gets(proposing(token-10, read("r2", long, "a"))))
		x.want(node.Released, unread("r1", "a"), unread("r2", "a"))
		x.untaken(token, x.do(proposing(token, acquire("w", long, "a")))[0])
	}},
	{"a reader raises a smaller fence to its Floor", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("w", long, "a")))
		x.want(node.Released, release("w", "a"))
		x.gets(read("r", long, "a"))
		op := read("r", long, "a")
		op.Floor = token + 5
		assert.Equal(x, token+5, x.gets(op))
		op.Floor = token + 3
		assert.Equal(x, token+5, x.gets(op))
		x.fence(token+5, "a")
	}},
	{"but not to a token too far ahead", func(x *trial) {
		op := read("r", long, "a")
		op.Floor = x.now() + 2*micros(limits.MaxClockSkew)
		x.clock(op)
		x.keys()
	}},
	{"a client whose clock is far off does not read", func(x *trial) {
		now := x.now()
		x.clock(proposing(now+2*micros(limits.MaxClockSkew), read("r", long, "a")))
		x.clock(proposing(now-micros(limits.MaxTTL)-1, read("r", long, "a")))
		x.keys()
	}},
	{"if no token is known, all readers get the same fence", func(x *trial) {
		token := x.token()
		first := x.gets(proposing(token, read("r1", long, "a")))
		assert.Equal(x, token-micros(limits.MaxTTL-limits.MaxClockSkew), first, "whichever node it is")
		assert.Equal(x, first, x.gets(proposing(token+micros(time.Second), read("r2", long, "a"))))
		assert.Equal(x, first, x.denied(acquire("w", long, "a"), "a", node.Readers).Token)
	}},
	{"it is at least as large as any forgotten token, however slow the client's clock is", func(x *trial) {
		now := x.now()
		slow := now - micros(limits.MaxTTL) + micros(slack)
		fence := x.gets(proposing(slow, read("r1", long, "a")))
		assert.GreaterOrEqual(x, fence, now-micros(limits.MaxTTL))
		assert.Less(x, fence, slow)
	}},
	{"and smaller than any token of a writer", func(x *trial) {
		fence := x.gets(read("r1", long, "a"))
		x.want(node.Released, unread("r1", "a"))
		token := x.token()
		assert.Greater(x, token, fence)
		x.want(node.Granted, proposing(token, acquire("w", long, "a")))
		x.fence(token, "a")
	}},
	{"a token from before a loss of memory may not be the largest one", func(x *trial) {
		x.Forget()
		x.open(fleeting)
		token, r := x.timely(fleeting.MaxClockSkew, acquire("w", short, "a"))
		x.outcome(node.Granted, r)
		x.do(release("w", "a"))
		x.Restart()
		op := proposing(token, acquire("w2", short, "a"))
		x.untilTooOld(op, func(r node.Reply) { x.failed(node.ErrRecovering, op, r) })
		_, r = x.timely(0, read("r", short, "a"))
		x.answered(node.Granted, r)
		assert.Greater(x, r.Token, token)
	}},
	{"of several names the largest fence is told, and none is raised to it", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("w", long, "a")))
		x.want(node.Released, release("w", "a"))
		assert.Equal(x, token, x.gets(read("r", long, "b", "a")))
		assert.Less(x, x.gets(read("r2", long, "b")), token)
	}},
}
