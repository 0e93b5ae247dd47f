package nodetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// fencing is about the tokens: each node takes those of a name in growing order only.
var fencing = []promise{
	{"a new token is taken, and told with its holder", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a", "b")))
		x.fence(token, "a", "b")
		h := x.denied(acquire("o2", long, "a"), "a", "o1")
		assert.Equal(x, token, h.Token)
		h = x.denied(renew("o2", long, "b"), "b", "o1")
		assert.Equal(x, token, h.Token)
	}},
	{"one that is not larger is not taken: the lock is given, and the fence told", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a")))
		for i, smaller := range []uint64{token, token - 1, x.old()} {
			x.do(release("o1", "a"), release(fmt.Sprint(i-1), "a"))
			x.untaken(token, x.do(proposing(smaller, acquire(fmt.Sprint(i), long, "a")))[0])
			x.fence(token, "a")
			x.keys("a")
			x.lives(long, "a")
		}
	}},
	{"the owner gets a larger one afterwards", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a")))
		x.want(node.Released, release("o1", "a"))
		x.untaken(token, x.do(proposing(token, acquire("o2", brief, "a")))[0])
		x.want(node.Granted, proposing(token+1, acquire("o2", long, "a")))
		x.fence(token+1, "a")
		x.lives(long, "a")
		x.untaken(token+1, x.do(proposing(token+1, acquire("o2", long, "a")))[0])
	}},
	{"of several names the largest fence is told, and the smaller ones are raised", func(x *trial) {
		token := x.token()
		fences := map[string]uint64{"a": token, "b": token + 20, "c": token + 30}
		for name, fence := range fences {
			x.want(node.Granted, proposing(fence, acquire("o1", long, name)))
			x.want(node.Released, release("o1", name))
		}
		for _, names := range [][]string{{"a", "b", "c", "d"}, {"c", "d", "b", "a"}, {"b", "c", "a", "d"}} {
			x.untaken(token+30, x.do(proposing(token+10, acquire("o2", long, names...)))[0])
			x.fence(token+10, "a", "d")
			x.fence(token+20, "b")
			x.fence(token+30, "c")
		}
		x.untaken(token+30, x.do(proposing(token+30, acquire("o2", long, "a", "b", "c", "d")))[0])
		x.fence(token+30, "a", "b", "c", "d")
		x.want(node.Granted, proposing(token+31, acquire("o2", long, "a", "b", "c", "d")))
		x.fence(token+31, "a", "b", "c", "d")
	}},
	{"a denial raises nothing", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "b")))
		for _, names := range [][]string{{"b"}, {"a", "b", "c"}, {"b", "a", "c"}} {
			h := x.denied(proposing(token+10, acquire("o2", long, names...)), "b", "o1")
			assert.Equal(x, token, h.Token)
			h = x.denied(proposing(token+10, renew("o2", long, names...)), "b", "o1")
			assert.Equal(x, token, h.Token)
		}
		x.fence(token, "b")
		x.unfenced("a")
		x.unfenced("c")
	}},
	{"a denial of who was forced off raises nothing", func(x *trial) {
		x.want(node.Absent, burying(force(long, "b"), "o1"))
		for _, names := range [][]string{{"b"}, {"a", "b"}, {"b", "a"}} {
			h := x.denied(renew("o1", long, names...), "b", "")
			assert.Zero(x, h.Token)
		}
		x.unfenced("a")
		x.unfenced("b")
	}},
	{"a holder is denied with the token of its name", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", brief, "a")))
		x.want(node.Granted, proposing(token+10, acquire("o1", long, "b")))
		x.want(node.Granted, proposing(token+20, acquire("o1", middle, "c")))
		h := x.denied(acquire("o2", long, "a", "b", "c"), "b", "o1")
		assert.Equal(x, token+10, h.Token)
	}},
	{"a name keeps its fence when its lock is gone", func(x *trial) {
		for name, end := range map[string]func(){
			"released": func() { x.want(node.Released, release("o1", "released")) },
			"forced":   func() { x.want(node.Released, force(long, "forced")) },
			"expired":  func() { x.Pass(short) },
		} {
			token := x.token()
			x.want(node.Granted, proposing(token, acquire("o1", short, name)))
			end()
			x.untaken(token, x.do(proposing(token, acquire("o2", long, name)))[0])
		}
	}},
	{"a fence is for one name", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token+10, acquire("o1", long, "a")))
		x.want(node.Granted, proposing(token, acquire("o1", long, "b")))
		x.fence(token+10, "a")
		x.fence(token, "b")
	}},
	{"names that look alike have fences of their own", func(x *trial) {
		for _, name := range alike {
			x.unfenced(name)
		}
	}},
	{"a fence survives a restart", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a")))
		x.want(node.Released, release("o1", "a"))
		x.Restart()
		x.open(limits)
		x.untaken(token, x.do(proposing(token, acquire("o2", long, "a")))[0])
	}},
	{"a renewal puts the fence back with the lock", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a", "b")))
		x.Forget()
		x.reasserted(false, node.Healed, proposing(token, renew("o1", long, "a", "b")))
		x.holder(x.do(inspect("b"))[0].Holders[0], node.Holder{Name: "b", Owner: "o1", TTL: long, Token: token})
		x.want(node.Granted, opening(x.mark()))
		x.fence(token, "a", "b")
		x.want(node.Released, release("o1", "a"))
		x.untaken(token, x.do(proposing(token, acquire("o2", long, "a")))[0])
		x.want(node.Granted, proposing(token+1, acquire("o2", long, "a")))
	}},
	{"a renewal raises the fence, and never lowers it", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token+10, acquire("o1", long, "a")))
		x.want(node.Granted, proposing(token+30, acquire("o1", long, "b")))
		x.want(node.Healed, proposing(token+20, renew("o1", long, "a", "b", "c")))
		x.fence(token+20, "a", "c")
		x.fence(token+30, "b")
		x.want(node.Granted, proposing(token+10, renew("o1", long, "a", "b", "c")))
		x.fence(token+20, "a", "c")
		x.fence(token+30, "b")
	}},
	{"a token too far ahead is refused, and nothing is changed", func(x *trial) {
		x.want(node.Granted, proposing(x.old(), acquire("o1", brief, "a")))
		ahead := limits.MaxClockSkew + long
		for _, names := range [][]string{{"a"}, {"a", "b"}, {"b"}} {
			now := x.now()
			err := x.clock(proposing(now+micros(ahead), acquire("o1", long, names...)))
			assert.Equal(x, limits.MaxClockSkew, err.Limit)
			assert.LessOrEqual(x, err.Ahead, ahead)
			assert.Greater(x, err.Ahead, ahead-slack)
		}
		x.keys("a")
		x.lives(brief, "a")
		x.fence(x.old(), "a")
		x.unfenced("b")
	}},
	{"a token too far behind is refused, and nothing is changed", func(x *trial) {
		x.want(node.Granted, proposing(x.old(), acquire("o1", brief, "a")))
		behind := limits.MaxTTL
		for _, names := range [][]string{{"a"}, {"a", "b"}, {"b"}} {
			now := x.now()
			err := x.clock(proposing(now-micros(behind), acquire("o1", long, names...)))
			assert.Equal(x, limits.MaxTTL, err.Limit)
			assert.LessOrEqual(x, err.Ahead, -behind)
			assert.Greater(x, err.Ahead, -behind-slack)
		}
		x.keys("a")
		x.lives(brief, "a")
		x.fence(x.old(), "a")
		x.unfenced("b")
	}},
	{"a token as far off as it may be is taken", func(x *trial) {
		x.want(node.Granted, proposing(x.now()-micros(limits.MaxTTL-slack), acquire("o1", long, "a")))
		x.want(node.Granted, proposing(x.now()+micros(limits.MaxClockSkew), acquire("o1", long, "a")))
	}},
	{"of a block of tokens the end is the fence", func(x *trial) {
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
	{"of several names those below a block are raised to its end", func(x *trial) {
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
		x.want(node.Granted, proposing(x.old(), acquire("o1", brief, "a")))
		ahead := limits.MaxClockSkew + long
		for _, names := range [][]string{{"a"}, {"a", "b"}, {"b"}} {
			now := x.now()
			err := x.clock(reserving(micros(ahead), proposing(now, acquire("o1", long, names...))))
			assert.Equal(x, limits.MaxClockSkew, err.Limit)
			assert.LessOrEqual(x, err.Ahead, ahead)
			assert.Greater(x, err.Ahead, ahead-slack)
		}
		behind := limits.MaxTTL
		err := x.clock(reserving(micros(behind), proposing(x.now()-micros(behind), acquire("o1", long, "a"))))
		assert.Equal(x, limits.MaxTTL, err.Limit)
		assert.LessOrEqual(x, err.Ahead, -behind)
		x.keys("a")
		x.lives(brief, "a")
		x.fence(x.old(), "a")
		x.unfenced("b")
	}},
	{"a block whose end is as far ahead as it may be is taken", func(x *trial) {
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
	{"while a token of a block could be taken, its fence is there", func(x *trial) {
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
	{"a clock that is out of all bounds is one that is too far off", func(x *trial) {
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
	{"a renewal raises a fence to a token that is older than acquisitions may be", func(x *trial) {
		token := x.now() - micros(limits.Recovery()-slack)
		x.clock(proposing(token, acquire("o1", long, "a")))
		x.want(node.Healed, proposing(token, renew("o1", long, "a")))
		x.fence(token, "a")
	}},
	{"while a token could be taken, its fence is there", func(x *trial) {
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
	{"a fence goes when its token has no more use", func(x *trial) {
		x.Forget()
		x.open(fleeting)
		token, r := x.timely(fleeting.MaxClockSkew, acquire("o1", short, "a"))
		x.outcome(node.Granted, r)
		x.Pass(fleeting.Recovery() + fleeting.MaxClockSkew + time.Millisecond)
		replies := x.do(release("o1", "a"), proposing(token, renew("o1", fleeting.MaxTTL, "a")), inspect("a"))
		x.outcome(node.Healed, replies[1])
		x.outcome(node.Inspected, replies[2])
		require.Len(x, replies[2].Holders, 1)
		assert.Zero(x, replies[2].Holders[0].Token)
	}},
	{"a node that has forgotten a token never takes it again", func(x *trial) {
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
	{"a node whose limits change takes no token again", func(x *trial) {
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
	{"tokens of a name grow, whoever proposes what", func(x *trial) { x.grow(x.handles()) }},
}

// block is a token that has so many behind it which no other test is given.
func (x *trial) block(reserve uint64) uint64 { return x.began + tokens.Add(reserve+1) - reserve }

func reserving(reserve uint64, op node.Op) node.Op {
	op.Reserve = reserve
	return op
}

func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) }

// old is a token that is young enough, and smaller than all of token.
func (x *trial) old() uint64 { return x.began - micros(limits.MaxTTL/2) }

// untaken demands that a lock was given and its token was not taken because of the fence.
func (x *trial) untaken(fence uint64, r node.Reply) {
	x.Helper()
	x.answered(node.Granted, r)
	assert.Zero(x, r.Recovering)
	require.Equal(x, fence, r.Token)
}

// fence demands the fence of names that are held.
func (x *trial) fence(token uint64, names ...string) {
	x.Helper()
	holders := x.want(node.Inspected, inspect(names...)).Holders
	require.Len(x, holders, len(names))
	for _, h := range holders {
		assert.Equal(x, token, h.Token, "the fence of %q", h.Name)
	}
}

// unfenced demands that the node knows no token of a free name: it takes an old one.
func (x *trial) unfenced(name string) {
	x.Helper()
	x.want(node.Granted, proposing(x.old(), acquire("o of "+name, long, name)))
}

// clock demands that an operation is refused because of its token.
func (x *trial) clock(op node.Op) node.ClockError {
	x.Helper()
	var err *node.ClockError
	require.ErrorAs(x, x.fails(node.ErrClock, op).Err, &err)
	return *err
}

// now is the node's clock, as it refuses a token from long ago by it.
func (x *trial) now() uint64 {
	x.Helper()
	r := x.fails(node.ErrClock, proposing(1, acquire("o1", time.Millisecond, "a")))
	return uint64(x.clockOf(1, r))
}

// clockOf is the node's clock in the refusal of a token.
func (x *trial) clockOf(token uint64, r node.Reply) int64 {
	x.Helper()
	var err *node.ClockError
	require.ErrorAs(x, r.Err, &err)
	return int64(token) - err.Ahead.Microseconds()
}

// timely runs an operation with a token that is so far ahead of the node's clock, again
// where the test was too slow for the limits.
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

// grow has owners take and free one name, each with proposals of no order, and a second
// round where the first is not taken. Who has the lock notes its token.
func (x *trial) grow(handles []node.Node) {
	const owners, rounds = 8, 30
	var mu sync.Mutex
	var taken []uint64
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			n := handles[i%len(handles)]
			for round := range rounds {
				owner := fmt.Sprint(i, ":", round)
				token, r := x.old()+rand.Uint64N(micros(time.Second)), node.Reply{}
				for r.Outcome != node.Granted && r.Err == nil {
					r = x.doOn(n, proposing(token, acquire(owner, long, "a")))[0]
				}
				if r.Err != nil {
					return // the tokens will be too few
				}
				if r.Token != 0 {
					token = r.Token + 1
					r = x.doOn(n, proposing(token, acquire(owner, long, "a")))[0]
					assert.Equal(x, node.Granted, r.Outcome)
					assert.Zero(x, r.Token, "nobody else could take one")
				}
				mu.Lock()
				taken = append(taken, token)
				mu.Unlock()
				x.doOn(n, release(owner, "a"))
			}
		})
	}
	wg.Wait()
	require.Len(x, taken, owners*rounds)
	for i := range taken[1:] {
		require.Less(x, taken[i], taken[i+1])
	}
}
