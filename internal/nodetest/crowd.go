package nodetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// race lets many owners acquire one name, again and again, and requires one winner each time, which all other
// replies name.
func (x *trial) race() {
	x.must("open")
	handles := x.handles()
	const owners, rounds = 16, 10
	for round := range rounds {
		name := fmt.Sprintf("contended %d", round)
		ops := make([]wire.Op, owners)
		replies := make([]wire.Reply, owners)
		var wg sync.WaitGroup
		for i := range owners {
			ops[i] = x.acquisition(fmt.Sprintf("o%d", i), name)
			wg.Go(func() { replies[i] = x.doOn(handles[i%len(handles)], ops[i])[0] })
		}
		wg.Wait()
		winner := ""
		for i, r := range replies {
			if r.Outcome == wire.Granted {
				require.Empty(x, winner, "a second winner")
				winner = ops[i].Owner
			}
		}
		for i, r := range replies {
			if r.Outcome != wire.Granted {
				require.NoError(x, x.check(ops[i], r, scan(fmt.Sprintf("denied %q %q", name, winner))))
			}
		}
		require.NotEmpty(x, winner)
	}
}

// grow lets owners take and release one name with proposals in no order, and with a second token if the first
// is refused. The holder records its token.
func (x *trial) grow() {
	x.must("open")
	handles := x.handles()
	const owners, rounds = 8, 30
	var mu sync.Mutex
	var taken []uint64
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			n := handles[i%len(handles)]
			acquire := func(owner string, token uint64) wire.Reply {
				return x.doOn(n, wire.Op{
					Kind: wire.Acquire, Names: []string{"a"}, Owner: owner, TTL: long, Limits: limits, Token: token,
				})[0]
			}
			for round := range rounds {
				owner := fmt.Sprint(i, ":", round)
				token, r := x.old()+rand.Uint64N(uint64(time.Second.Microseconds())), wire.Reply{}
				for r.Outcome != wire.Granted && r.Err == nil {
					r = acquire(owner, token)
				}
				if r.Err != nil {
					return // there will be too few tokens
				}
				if r.Token != 0 {
					token = r.Token + 1
					r = acquire(owner, token)
					assert.Equal(x, wire.Granted, r.Outcome)
					assert.Zero(x, r.Token, "no other owner can have taken a token")
				}
				mu.Lock()
				taken = append(taken, token)
				mu.Unlock()
				x.doOn(n, wire.Op{Kind: wire.Release, Names: []string{"a"}, Owner: owner})
			}
		})
	}
	wg.Wait()
	require.Len(x, taken, owners*rounds)
	for i := range taken[1:] {
		require.Less(x, taken[i], taken[i+1])
	}
}

// crowd requires that all of many waiting readers are woken. A reader that is not in before its patience ends may be
// told again.
func (x *trial) crowd() {
	x.must("open", "listen c", "acquire o1 a -> granted")
	const readers = 250
	for i := range readers {
		x.must(fmt.Sprintf("fairread c:%d@500r#%d a -> denied", i, i+1))
	}
	x.must("release o1 a -> released")
	told := map[string]bool{}
	for len(told) < readers {
		m, err := x.boxes["c"].next()
		require.NoError(x, err)
		assert.Equal(x, wire.Woken, m.Kind)
		if !told[m.Waiter] {
			told[m.Waiter] = true
			x.must(fmt.Sprintf("fairread %s#1 a -> granted", m.Waiter))
		}
	}
}

// inGo has the promises that no text tells, mostly about many callers at once. They belong to the groups with these
// names.
var inGo = map[string][]promise{
	"acquire":    {{"of many at once exactly one is granted", func(x *trial) { x.race() }}},
	"batch":      {{"the operations are only read", func(x *trial) { x.onlyRead() }}},
	"fence":      {{"tokens of a name grow, whatever owners propose", func(x *trial) { x.grow() }}},
	"read queue": {{"however many readers there are", func(x *trial) { x.crowd() }}},
	"recovery":   {{"a recovery ends when it is over, and not before", func(x *trial) { x.endsAt() }}},
	"life": {
		{"the name is fixed", func(x *trial) { x.oneName() }},
		{"many callers at once, and a Close among them", func(x *trial) { x.closeAmidst() }},
	},
}

// must runs lines, and ends the test if a reply is not as expected.
func (x *trial) must(lines ...string) {
	x.Helper()
	for _, line := range lines {
		x.tell(nil, []step{{at: "line", text: line}})
	}
}

func (x *trial) handles() []node.Node {
	if x.Second == nil {
		return []node.Node{x.Node}
	}
	return []node.Node{x.Node, x.Second()}
}

// oneName requires that a node has one name at all times.
func (x *trial) oneName() {
	name := x.Node.Name()
	assert.NotEmpty(x, name)
	x.must("open")
	assert.Equal(x, name, x.Node.Name())
	require.NoError(x, x.Node.Close())
	assert.Equal(x, name, x.Node.Name())
}

func (x *trial) acquisition(owner, name string) wire.Op {
	return x.complete(wire.Op{Kind: wire.Acquire, Names: []string{name}, Owner: owner, TTL: long})
}

// closeAmidst closes the node while callers use it. Each call must get a reply or fail, and an operation that
// is reported as unsent must not have run.
func (x *trial) closeAmidst() {
	x.must("open")
	const callers, calls = 8, 50
	unsent := make([]string, 0)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for call := range calls {
				name := string(rune('a'+caller)) + string(rune('A'+call))
				op := wire.Op{Kind: wire.Acquire, Names: []string{name}, Owner: "o1", TTL: long, Limits: limits, Token: x.began}
				if r := x.do(op)[0]; r.Unsent {
					mu.Lock()
					unsent = append(unsent, name)
					mu.Unlock()
				}
				_ = x.Node.Probe(x.ctx)
				if caller == 0 && call == calls/2 {
					assert.NoError(x, x.Node.Close())
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(x, unsent)
	held := x.Keys()
	for _, name := range unsent {
		assert.NotContains(x, held, name)
	}
}

// onlyRead requires that a batch leaves its operations as they were.
func (x *trial) onlyRead() {
	x.must("open")
	ops := []wire.Op{
		x.acquisition("o1", "b"),
		x.complete(wire.Op{Kind: wire.ForceRelease, Names: []string{"b", "a"}, TTL: long, Buried: []string{"o2"}}),
		x.complete(wire.Op{Kind: wire.Release, Names: []string{"b", "a"}, Owner: "o1"}),
	}
	given := slices.Clone(ops)
	for i := range given {
		given[i].Names, given[i].Buried = slices.Clone(ops[i].Names), slices.Clone(ops[i].Buried)
	}
	x.do(given...)
	assert.Equal(x, ops, given)
}

// endsAt requires that a recovery does not end before its time by the clock of the last refusal, and has ended by
// the clock at which rights are given again.
func (x *trial) endsAt() {
	x.limits = wire.Limits{MaxTTL: 60 * time.Millisecond, MaxClockSkew: 20 * time.Millisecond}
	x.must("acquire o1 a ttl=30ms -> recovering left=80ms length=80ms")
	left := x.limits.Recovery()
	until := x.do(x.complete(wire.Op{Kind: wire.Mark}))[0].Marker.Since + left.Microseconds()
	op := wire.Op{Kind: wire.Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Millisecond, Limits: x.limits, Token: 1}
	for range attempts {
		r := x.do(op)[0]
		if errors.Is(r.Err, node.ErrClock) {
			assert.GreaterOrEqual(x, clockOf(1, r), uint64(until))
			x.must("timely acquire o1 a ttl=30ms token=now -> granted")
			return
		}
		require.NoError(x, x.check(op, r, scan("recovering")))
		require.LessOrEqual(x, r.Recovering, left)
		left = r.Recovering
		x.Pass(time.Millisecond)
	}
	require.Fail(x, "the recovery does not end")
}
