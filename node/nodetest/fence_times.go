package nodetest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// fenceTimes has the promises about tokens and the node's clock. The node accepts no token that is too far
// off, and keeps every fence.
var fenceTimes = []promise{
	{"a token too far ahead is refused, and nothing is changed", func(x *trial) {
		ahead := limits.MaxClockSkew + long
		x.tooFar(ahead, limits.MaxClockSkew, func() node.Op {
			return proposing(x.now()+micros(ahead), acquire("o1", long))
		})
	}},
	{"a token too far behind is refused, and nothing is changed", func(x *trial) {
		x.tooFar(-limits.MaxTTL, limits.MaxTTL, func() node.Op {
			return proposing(x.now()-micros(limits.MaxTTL), acquire("o1", long))
		})
	}},
	{"a token exactly at the limit is accepted", func(x *trial) {
		x.want(node.Granted, proposing(x.now()-micros(limits.MaxTTL-slack), acquire("o1", long, "a")))
		x.want(node.Granted, proposing(x.now()+micros(limits.MaxClockSkew), acquire("o1", long, "a")))
	}},
	{"a clock out of all bounds is refused as too far off", func(x *trial) {
		for _, token := range []uint64{1, x.began * 1000, 1 << 63, math.MaxUint64} {
			x.clock(proposing(token, acquire("o1", long, "a")))
			x.want(node.Healed, proposing(token, renew("o1", long, "a")))
			x.want(node.Released, release("o1", "a"))
		}
		x.unfenced("a")
	}},
	{"a renewal raises no fence to a token too far off, and is served", func(x *trial) {
		for i, token := range []uint64{
			x.now() - micros(limits.Recovery()),
			x.now() + micros(limits.MaxClockSkew+long),
		} {
			name := fmt.Sprint("n", i)
			x.want(node.Healed, proposing(token, renew("o1", long, name)))
			x.want(node.Granted, proposing(token, renew("o1", long, name)))
			x.fence(0, name)
			x.want(node.Released, release("o1", name))
			x.unfenced(name)
		}
	}},
	{"a renewal raises a fence to a token too old for an acquisition", func(x *trial) {
		token := x.now() - micros(limits.Recovery()-slack)
		x.clock(proposing(token, acquire("o1", long, "a")))
		x.want(node.Healed, proposing(token, renew("o1", long, "a")))
		x.fence(token, "a")
	}},
	{"while a token could be accepted, its fence exists", func(x *trial) {
		x.Forget()
		x.open(fleeting)
		token, r := x.timely(fleeting.MaxClockSkew, acquire("o1", short, "a"))
		x.outcome(node.Granted, r)
		x.do(release("o1", "a"))
		x.untilTooOld(proposing(token, acquire("o2", short, "a")), func(r node.Reply) {
			x.untaken(token, r)
			x.do(release("o2", "a"))
		})
		x.Pass(fleeting.Recovery())
		next, r := x.timely(0, acquire("o3", short, "a"))
		x.outcome(node.Granted, r)
		assert.Greater(x, next, token)
	}},
	{"a fence does not expire", func(x *trial) {
		x.Forget()
		x.open(fleeting)
		var token uint64
		var r node.Reply
		for range 100 {
			token, r = x.timely(fleeting.MaxClockSkew, acquire("o1", short, "a"))
			x.outcome(node.Granted, r)
			x.do(release("o1", "a"))
			x.Pass(2 * fleeting.Recovery())
			r = last(x.do(proposing(x.old(), renew("o2", fleeting.MaxTTL, "a")), proposing(x.now(), acquire("o3", short, "a"))))
			if r.Outcome == node.Denied {
				break
			}
			x.do(release("o2", "a"), release("o3", "a")) // too slow: o2 had ended, or the token was too old
		}
		x.outcome(node.Denied, r)
		assert.Equal(x, token, r.Holder.Token)
	}},
	{"a node that has forgotten a token never accepts it again", func(x *trial) {
		for _, lose := range []func(){x.Forget, x.Restart, func() { x.Restart(); x.Forget() }} {
			x.Forget()
			x.open(fleeting)
			token, r := x.timely(fleeting.MaxClockSkew, acquire("o1", short, "a"))
			x.outcome(node.Granted, r)
			x.do(release("o1", "a"))
			lose()
			op := proposing(token, acquire("o2", short, "a"))
			x.untilTooOld(op, func(r node.Reply) { x.failed(node.ErrRecovering, op, r) })
			_, r = x.timely(0, acquire("o2", short, "a"))
			x.outcome(node.Granted, r)
		}
	}},
	{"a node whose limits change accepts no token again", func(x *trial) {
		const ms = time.Millisecond
		for _, l := range [][2]node.Limits{
			{{MaxTTL: 20 * ms, MaxClockSkew: 10 * ms}, {MaxTTL: 60 * ms}},
			{{MaxTTL: 60 * ms}, {MaxTTL: 20 * ms, MaxClockSkew: 10 * ms}},
		} {
			before, after := l[0], l[1]
			x.Forget()
			x.open(before)
			token, r := x.timely(before.MaxClockSkew, acquire("o1", ms, "a"))
			x.outcome(node.Granted, r)
			x.limits = after
			x.answered(node.Granted, x.do(opening(x.mark()))[0])
			op := proposing(token, acquire("o2", ms, "a"))
			x.untilTooOld(op, func(r node.Reply) { x.failed(node.ErrRecovering, op, r) })
		}
	}},
}

func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) }

// old returns a token that is young enough, and smaller than all from token.
func (x *trial) old() uint64 { return x.began - micros(limits.MaxTTL/2) }

// clock requires that an operation is refused because of its token.
func (x *trial) clock(op node.Op) node.ClockError {
	x.Helper()
	var err *node.ClockError
	require.ErrorAs(x, x.fails(node.ErrClock, op).Err, &err)
	return *err
}

// tooFar requires that an operation is refused because its token is ahead by this much, or behind if
// negative, whatever its names are. The refusal must change nothing.
func (x *trial) tooFar(ahead, limit time.Duration, op func() node.Op) {
	x.Helper()
	x.want(node.Granted, proposing(x.old(), acquire("o1", brief, "a")))
	for _, names := range [][]string{{"a"}, {"a", "b"}, {"b"}} {
		refused := op()
		refused.Names = names
		err := x.clock(refused)
		assert.Equal(x, limit, err.Limit)
		assert.LessOrEqual(x, err.Ahead, ahead)
		assert.Greater(x, err.Ahead, ahead-slack)
	}
	x.keys("a")
	x.lives(brief, "a")
	x.fence(x.old(), "a")
	x.unfenced("b")
}

// now returns the node's clock, from its refusal of an old token.
func (x *trial) now() uint64 {
	x.Helper()
	r := x.fails(node.ErrClock, proposing(1, acquire("o1", time.Millisecond, "a")))
	return uint64(x.clockOf(1, r))
}

// clockOf returns the node's clock from the refusal of a token.
func (x *trial) clockOf(token uint64, r node.Reply) int64 {
	x.Helper()
	var err *node.ClockError
	require.ErrorAs(x, r.Err, &err)
	return int64(token) - err.Ahead.Microseconds()
}

// timely runs an operation with a token this far ahead of the node's clock. It repeats it if the test was too
// slow for the limits.
func (x *trial) timely(ahead time.Duration, op node.Op) (token uint64, r node.Reply) {
	x.Helper()
	for range 1000 {
		token = x.now() + micros(ahead)
		if r = x.do(proposing(token, op))[0]; !errors.Is(r.Err, node.ErrClock) {
			return token, r
		}
	}
	require.Fail(x, "the machine is too slow, or the node too strict", "%v", r.Err)
	return 0, node.Reply{}
}

// untilTooOld repeats an operation under short limits until its token is refused.
func (x *trial) untilTooOld(op node.Op, before func(node.Reply)) {
	x.Helper()
	for range 1000 {
		r := x.do(op)[0]
		if errors.Is(r.Err, node.ErrClock) {
			return
		}
		before(r)
		x.Pass(time.Millisecond)
	}
	require.Fail(x, "the token is never too old")
}
