package nodetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// fencing has the promises about tokens: each node accepts the tokens of a name in growing order only. Its names do not
// share places, except where a promise says so.
var fencing = []promise{
	{"a new token is accepted, and told with its holder", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "a", "b")))
		x.fence(token, "a", "b")
		h := x.denied(acquire("o2", long, "a"), "a", "o1")
		assert.Equal(x, token, h.Token)
		h = x.denied(renew("o2", long, "b"), "b", "o1")
		assert.Equal(x, token, h.Token)
	}},
	{"a token that is not larger is refused: the lock is granted, and the fence told", func(x *trial) {
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
	{"a denial of an owner that was forced off raises nothing", func(x *trial) {
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
			"expired":  func() { x.want(node.Released, shortenTo(short, "expired")); x.Pass(short) },
		} {
			token := x.token()
			x.want(node.Granted, proposing(token, acquire("o1", long, name)))
			end()
			x.untaken(token, x.do(proposing(token, acquire("o2", long, name)))[0])
		}
	}},
	{"a fence is for the names of one place", func(x *trial) {
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
	{"names that share a place share a fence", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "aaa")))
		x.untaken(token, x.do(proposing(token-1, acquire("o2", long, "ncw")))[0])
		x.fence(token, "aaa", "ncw")
		x.want(node.Granted, proposing(token+1, acquire("o2", long, "ncw")))
		x.fence(token+1, "aaa", "ncw")
		x.want(node.Granted, proposing(token, renew("o1", long, "aaa")))
		x.fence(token+1, "aaa", "ncw")
		x.want(node.Released, release("o1", "aaa"), release("o2", "ncw"))
		x.untaken(token+1, x.do(proposing(token+1, acquire("o3", long, "aaa")))[0])
	}},
	{"one owner may take several names of one place", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "aak", "phr", "upy", "b")))
		x.fence(token, "aak", "phr", "upy", "b")
		x.want(node.Released, release("o1", "aak", "phr", "upy", "b"))
		x.untaken(token, x.do(proposing(token, acquire("o2", long, "upy", "aak")))[0])
	}},
	{"a holder is told with its own token as long as it holds the name", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "aaa")))
		x.want(node.Granted, proposing(token+10, acquire("o2", long, "ncw")))
		holders := x.want(node.Inspected, inspect("aaa", "ncw")).Holders
		require.Len(x, holders, 2)
		assert.Equal(x, token, holders[0].Token)
		assert.Equal(x, token+10, holders[1].Token)
		x.untaken(token+10, x.do(proposing(token+5, acquire("o1", long, "aaa")))[0])
		x.want(node.Granted, proposing(token+20, acquire("o1", long, "aaa")))
		x.want(node.Granted, proposing(token+20, renew("o1", long, "aaa")))
		assert.Equal(x, token+20, x.want(node.Inspected, inspect("aaa")).Holders[0].Token)
		x.want(node.Healed, proposing(token+30, renew("o3", long, "b")))
		assert.Equal(x, token+30, x.want(node.Inspected, inspect("b")).Holders[0].Token)
	}},
	{"the denial of a renewal tells the holder's own token, whatever the fence is", func(x *trial) {
		token := x.token()
		x.want(node.Granted, proposing(token, acquire("o1", long, "aaa")))
		x.want(node.Granted, proposing(token+10, acquire("o2", long, "ncw")))
		for _, op := range []node.Op{renew("o3", long, "aaa"), renew("o3", long, "b", "aaa"), keep("o3", long, "aaa")} {
			assert.Equal(x, token, x.want(node.Denied, proposing(token+20, op)).Holder.Token)
		}
		both := x.do(proposing(token+20, renew("o3", long, "aaa")), proposing(token+20, renew("o3", long, "ncw")))
		assert.Equal(x, token, both[0].Holder.Token)
		assert.Equal(x, token+10, both[1].Holder.Token)
		assert.Equal(x, token+10, x.want(node.Denied, proposing(token+20, acquire("o3", long, "aaa"))).Holder.Token)
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
	{"tokens of a name grow, whatever owners propose", func(x *trial) { x.grow(x.handles()) }},
}

// untaken requires that a lock was granted without its token, because of the fence.
func (x *trial) untaken(fence uint64, r node.Reply) {
	x.Helper()
	x.answered(node.Granted, r)
	assert.Zero(x, r.Recovering)
	require.Equal(x, fence, r.Token)
}

// fence requires this fence for names that are held: a denial tells it.
func (x *trial) fence(token uint64, names ...string) {
	x.Helper()
	for _, name := range names {
		h := x.want(node.Denied, acquire("another", time.Millisecond, name)).Holder
		assert.Equal(x, token, h.Token, "the fence of %q", h.Name)
	}
}

// unfenced requires that the node knows no token of a free name: it accepts an old one.
func (x *trial) unfenced(name string) {
	x.Helper()
	x.want(node.Granted, proposing(x.old(), acquire("o of "+name, long, name)))
}

// grow lets owners take and release one name with proposals in no order, and with a second token if the first
// is refused. The holder records its token.
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
					return // there will be too few tokens
				}
				if r.Token != 0 {
					token = r.Token + 1
					r = x.doOn(n, proposing(token, acquire(owner, long, "a")))[0]
					assert.Equal(x, node.Granted, r.Outcome)
					assert.Zero(x, r.Token, "no other owner can have taken a token")
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
