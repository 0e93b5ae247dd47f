package nodetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
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

// firstOfMany lets clients with other limits come first at once. The node takes the limits of one, and refuses the
// others.
func (x *trial) firstOfMany() {
	clients := []wire.Limits{limits}
	for _, text := range lists["others"] {
		clients = append(clients, x.limitsOf(text))
	}
	handles := x.handles()
	for range 10 {
		x.Forget()
		ops := make([]wire.Op, 2*len(clients))
		replies := make([]wire.Reply, len(ops))
		var wg sync.WaitGroup
		for i := range ops {
			ops[i] = x.acquisition(fmt.Sprint(i), "a")
			ops[i].Limits = clients[i/2]
			wg.Go(func() { replies[i] = x.doOn(handles[i%len(handles)], ops[i])[0] })
		}
		wg.Wait()
		set := x.do(x.complete(wire.Op{Kind: wire.Mark}))[0].Marker.Limits
		assert.Contains(x, clients, set)
		for i, r := range replies {
			want := "settings"
			if clients[i/2] == set {
				want = "recovering"
			}
			require.NoError(x, x.check(ops[i], r, scan(want)))
		}
	}
	x.must("keys")
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

// followAtOnce lets many follow locks and end that at once. Afterwards the inbox still follows as told.
func (x *trial) followAtOnce() {
	x.must("open", "listen c", "follow c")
	f := x.boxes["c"].Inbox.(wire.Follower) //nolint:forcetypeassert // it follows
	names := make([]string, 10)
	var wg sync.WaitGroup
	for i := range names {
		names[i] = fmt.Sprint("n", i)
		for range 3 {
			wg.Go(func() {
				for range 20 {
					if err := f.Follow(names[i]); err != nil {
						x.Error(err)
					}
					f.Unfollow(names[i])
				}
			})
		}
	}
	wg.Wait()
	x.must("follow c n{0..9}", "acquire o1 n{0..9}; announce release o1 n{0..9} -> granted, released",
		"told announced "+strings.Join(names, "; announced "))
}
