package nodetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// race lets many owners acquire one name, again and again, and requires one winner each time, which all other
// replies name.
func (x *trial) race() {
	x.ask("open")
	handles := x.handles()
	const owners, rounds = 16, 10
	for round := range rounds {
		name := fmt.Sprintf("contended %d", round)
		ops := make([]node.Op, owners)
		replies := make([]node.Reply, owners)
		var wg sync.WaitGroup
		for i := range owners {
			ops[i] = x.acquisition(fmt.Sprintf("o%d", i), name)
			wg.Go(func() { replies[i] = x.doWith(context.Background(), handles[i%len(handles)], ops[i])[0] })
		}
		wg.Wait()
		winner := ""
		for i, r := range replies {
			if r.Outcome == node.Granted {
				require.Empty(x, winner, "a second winner")
				winner = ops[i].Owner
			}
		}
		for i, r := range replies {
			if r.Outcome != node.Granted {
				require.NoError(x, x.check(ops[i], r, scan(fmt.Sprintf("denied %q %q", name, winner))))
			}
		}
		require.NotEmpty(x, winner)
	}
}

// grow lets owners take and release one name with proposals in no order, and with a second token if the first
// is refused. The holder records its token.
func (x *trial) grow() {
	x.ask("open")
	handles := x.handles()
	const owners, rounds = 8, 30
	var mu sync.Mutex
	var taken []uint64
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			n := handles[i%len(handles)]
			acquire := func(owner string, token uint64) node.Reply {
				return x.doWith(context.Background(), n, node.Op{
					Kind: node.Acquire, Names: []string{"a"}, Owner: owner, TTL: long, Limits: limits, Token: token,
				})[0]
			}
			for round := range rounds {
				owner := fmt.Sprint(i, ":", round)
				token, r := x.old()+rand.Uint64N(uint64(time.Second.Microseconds())), node.Reply{}
				for r.Outcome != node.Granted && r.Err == nil {
					r = acquire(owner, token)
				}
				if r.Err != nil {
					return // there will be too few tokens
				}
				if r.Token != 0 {
					token = r.Token + 1
					r = acquire(owner, token)
					assert.Equal(x, node.Granted, r.Outcome)
					assert.Zero(x, r.Token, "no other owner can have taken a token")
				}
				mu.Lock()
				taken = append(taken, token)
				mu.Unlock()
				x.doWith(context.Background(), n, node.Op{Kind: node.Release, Names: []string{"a"}, Owner: owner})
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
	clients := []node.Limits{limits}
	for _, text := range lists["others"] {
		l, err := parseLimits(text)
		require.NoError(x, err)
		clients = append(clients, l)
	}
	handles := x.handles()
	for range 10 {
		x.Forget()
		ops := make([]node.Op, 2*len(clients))
		replies := make([]node.Reply, len(ops))
		var wg sync.WaitGroup
		for i := range ops {
			ops[i] = x.acquisition(fmt.Sprint(i), "a")
			ops[i].Limits = clients[i/2]
			wg.Go(func() { replies[i] = x.doWith(context.Background(), handles[i%len(handles)], ops[i])[0] })
		}
		wg.Wait()
		set := x.do(x.complete(node.Op{Kind: node.Mark}))[0].Marker.Limits
		assert.Contains(x, clients, set)
		for i, r := range replies {
			want := "settings"
			if clients[i/2] == set {
				want = "recovering"
			}
			require.NoError(x, x.check(ops[i], r, scan(want)))
		}
	}
	x.ask("keys")
}

// crowd requires that all of many waiting readers are woken. A reader that is not in before its patience ends may be
// told again.
func (x *trial) crowd() {
	x.ask("open")
	x.ask("listen c")
	x.ask("acquire o1 a -> granted")
	const readers = 250
	for i := range readers {
		x.ask(fmt.Sprintf("fairread c:%d@500r#%d a -> denied", i, i+1))
	}
	x.ask("release o1 a -> released")
	told := map[string]bool{}
	for len(told) < readers {
		m, err := x.boxes["c"].next()
		require.NoError(x, err)
		assert.Equal(x, node.Woken, m.Kind)
		if !told[m.Waiter] {
			told[m.Waiter] = true
			x.ask(fmt.Sprintf("fairread %s#1 a -> granted", m.Waiter))
		}
	}
}

var following = []promise{
	{"many follow and end that at once", func(x *trial) {
		x.ask("open")
		x.ask("listen c")
		x.ask("follow c")
		f := x.boxes["c"].Inbox.(node.Follower) //nolint:forcetypeassert // it follows
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
		x.ask("follow c n{0..9}")
		x.ask("acquire o1 n{0..9}; announce release o1 n{0..9} -> granted, released")
		x.ask("told announced " + strings.Join(names, "; announced "))
	}},
	{"a closed inbox follows nothing", func(x *trial) {
		x.ask("open")
		x.ask("listen c")
		x.ask("follow c a")
		b := x.boxes["c"]
		f := b.Inbox.(node.Follower) //nolint:forcetypeassert // it follows
		require.NoError(x, b.Close())
		x.probeFailed(node.ErrClosed, f.Follow("b"))
		x.probeFailed(node.ErrClosed, f.Follow("a"))
		f.Unfollow("a")
		f.Unfollow("b")
		x.ask("acquire o1 a; announce release o1 a -> granted, released")
		assert.Empty(x, b.messages)
	}},
}

var listening = []promise{
	{"messages reach inboxes on other handles", func(x *trial) {
		x.ask("open")
		x.ask("listen other")
		handles := x.handles()
		require.NoError(x, x.listen(handles[len(handles)-1], "c", "c"))
		x.ask("line a c:1")
		x.ask("release o1 a -> released")
		x.ask("told woken c:1 a")
	}},
	{"a closed inbox receives nothing", func(x *trial) {
		x.ask("open")
		x.ask("listen c d")
		x.ask("line a c:1 d:1")
		b := x.boxes["c"]
		require.NoError(x, b.Close())
		require.NoError(x, b.Close())
		x.eventuallyDead()
		x.ask("release o1 a -> released")
		x.ask("told d: woken d:1 a")
		assert.Empty(x, b.messages)
	}},
	{"a closed node closes its inboxes", func(x *trial) {
		x.ask("listen c")
		require.NoError(x, x.Node.Close())
		require.NoError(x, x.boxes["c"].Close())
		_, err := node.Listen(context.Background(), x.Node, "c", func(node.Message) {})
		x.probeFailed(node.ErrClosed, err)
	}},
	{"an invalid client id is refused", func(x *trial) {
		x.ask("listen c")
		for _, client := range []string{"", "c:", ":", "c:1"} {
			_, err := node.Listen(context.Background(), x.Node, client, func(node.Message) {})
			x.probeFailed(node.ErrMisconfigured, err)
		}
	}},
	{"a context that has ended opens no inbox", func(x *trial) {
		x.ask("listen c")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := node.Listen(ctx, x.Node, "c", func(node.Message) {})
		x.probeFailed(node.ErrCanceled, err)
	}},
	{"the context bounds nothing but the opening", func(x *trial) {
		x.ask("open")
		x.ask("listen d")
		ctx, cancel := context.WithCancel(context.Background())
		messages := make(chan node.Message, 1)
		inbox, err := node.Listen(ctx, x.Node, "c", func(m node.Message) { messages <- m })
		require.NoError(x, err)
		cancel()
		x.ask("line a c:1")
		x.ask("release o1 a -> released")
		assert.Equal(x, "c:1", (<-messages).Waiter)
		require.NoError(x, inbox.Close())
	}},
}

// eventuallyDead waits until the inbox of the client c has no subscriber: a server notices a closed connection a
// little later.
func (x *trial) eventuallyDead() {
	dead := errors.New("it still listens")
	for end := time.Now().Add(patience); dead != nil && time.Now().Before(end); {
		x.ask("acquire o9 probe")
		dead = x.run([]step{{at: "probe", text: "queue c:dead#1 probe & release o9 probe & leave c:dead probe -> denied, released, absent"}})
	}
	require.NoError(x, dead)
}
