package nodetest

import (
	"math"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

// fenceBlocks has the promises about blocks of tokens.
var fenceBlocks = []promise{
	{"the end of a block of tokens is the fence", func(x *trial) {
		token := x.block(100)
		x.want(node.Granted, reserving(100, proposing(token, acquire("o1", long, "a", "b"))))
		x.fence(token+100, "a", "b")
		h := x.denied(reserving(300, acquire("o2", long, "b")), "b", "o1")
		assert.Equal(x, token+100, h.Token)
		x.fence(token+100, "b")
	}},
	{"a proposal inside of another's block is not taken, and told the end", func(x *trial) {
		token := x.block(200)
		x.want(node.Granted, reserving(100, proposing(token, acquire("o1", long, "a"))))
		x.want(node.Released, release("o1", "a"))
		for _, op := range []node.Op{
			proposing(token+1, acquire("o2", long, "a")),
			proposing(token+100, acquire("o2", long, "a")),
			reserving(100, proposing(token, acquire("o2", long, "a"))),
			reserving(100, proposing(token+100, acquire("o2", long, "a"))),
		} {
			x.untaken(token+100, x.do(op)[0])
			x.fence(token+100, "a")
		}
		x.want(node.Granted, reserving(9, proposing(token+101, acquire("o2", long, "a"))))
		x.fence(token+110, "a")
	}},
	{"fences of several names below a block are raised to its end", func(x *trial) {
		token := x.block(200)
		x.want(node.Granted, proposing(token+50, acquire("o1", long, "b")))
		x.want(node.Granted, proposing(token-1, acquire("o1", long, "c")))
		x.untaken(token+50, x.do(reserving(100, proposing(token, acquire("o1", long, "a", "b", "c"))))[0])
		x.fence(token+100, "a", "c")
		x.fence(token+50, "b")
	}},
	{"a renewal puts back the end of a block", func(x *trial) {
		token := x.block(100)
		x.want(node.Granted, reserving(100, proposing(token, acquire("o1", long, "a"))))
		x.Forget()
		x.reasserted(false, node.Healed, proposing(token+100, renew("o1", long, "a")))
		x.want(node.Granted, opening(x.mark()))
		x.fence(token+100, "a")
	}},
	{"a block whose end is too far ahead is refused, and nothing is changed", func(x *trial) {
		ahead := limits.MaxClockSkew + long
		x.tooFar(ahead, limits.MaxClockSkew, func() node.Op {
			return reserving(micros(ahead), proposing(x.now(), acquire("o1", long)))
		})
	}},
	{"a block that begins too far behind is refused, wherever it ends, and nothing is changed", func(x *trial) {
		x.tooFar(-limits.MaxTTL, limits.MaxTTL, func() node.Op {
			return reserving(micros(limits.MaxTTL), proposing(x.now()-micros(limits.MaxTTL), acquire("o1", long)))
		})
	}},
	{"a block whose end is exactly at the limit is accepted", func(x *trial) {
		token := x.now()
		x.want(node.Granted, reserving(micros(limits.MaxClockSkew), proposing(token, acquire("o1", long, "a"))))
		x.fence(token+micros(limits.MaxClockSkew), "a")
	}},
	{"a block without an end is too far ahead", func(x *trial) {
		for _, token := range []uint64{x.token(), 1, math.MaxUint64} {
			for _, reserve := range []uint64{1 << 62, 1 << 63, math.MaxUint64 - token, math.MaxUint64} {
				x.clock(reserving(reserve, proposing(token, acquire("o1", long, "a"))))
			}
		}
		x.keys()
		x.unfenced("a")
	}},
	{"while a token of a block could be accepted, its fence exists", func(x *trial) {
		x.Forget()
		x.open(fleeting)
		reserve := micros(fleeting.MaxClockSkew)
		token, r := x.timely(0, reserving(reserve, acquire("o1", short, "a")))
		x.outcome(node.Granted, r)
		x.do(release("o1", "a"))
		x.untilTooOld(proposing(token+reserve, acquire("o2", short, "a")), func(r node.Reply) {
			x.untaken(token+reserve, r)
			x.do(release("o2", "a"))
		})
	}},
}

// block returns a token, with reserve tokens after it that no other test gets.
func (x *trial) block(reserve uint64) uint64 { return x.began + tokens.Add(reserve+1) - reserve }

func reserving(reserve uint64, op node.Op) node.Op {
	op.Reserve = reserve
	return op
}
