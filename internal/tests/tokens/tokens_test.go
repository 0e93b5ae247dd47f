// Package tokens tests that fencing tokens grow, whatever clocks and a minority of the nodes do.
package tokens_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

func TestTokensGrowDespiteClockSkew(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		offs := []time.Duration{
			0, 990 * time.Millisecond, -time.Second, -5 * time.Second, 980 * time.Millisecond, time.Microsecond, -8 * time.Second,
		}
		var locks []*quorumlock.Lock
		for _, d := range offs {
			client := f.Client(fleet.SkewedBy(f, d))
			locks = append(locks, client.RedLock("job"), client.MultiLock("job", "other"))
		}
		var last uint64
		for i := range 200 {
			token := fleet.AcquireAndRelease(t, locks[(i*5)%len(locks)])
			require.Greater(t, token, last)
			last = token
			time.Sleep(time.Duration(i%3) * 100 * time.Microsecond)
		}
		require.Less(t, last, uint64(f.Clock.Wall().Add(2*time.Second).UnixMicro()), "tokens run no further ahead than the fastest clock")
	})
}

func TestTokenIsTheClockInMicroseconds(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, counters := f.SpiedClient()
		other := f.Client(fleet.SkewedBy(f, 999*time.Millisecond))
		for range 10 {
			time.Sleep(time.Microsecond)
			require.Equal(t, uint64(f.Clock.Wall().UnixMicro()), fleet.AcquireAndRelease(t, client.RedLock("job")))
			_ = fleet.AcquireAndRelease(t, other.RedLock("another name")) // The tokens of other names do not matter.
		}
		for _, c := range counters {
			require.Equal(t, 10, c.Asked(), "each acquisition is one round trip")
		}
	})
}

func TestTokensOfTheSameMicrosecondDiffer(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, mine := f.SpiedClient()
		b, theirs := f.SpiedClient()
		first := fleet.AcquireAndRelease(t, a.RedLock("job"))
		require.Equal(t, first+1, fleet.AcquireAndRelease(t, a.RedLock("job")), "the client remembers its own token")
		require.Equal(t, 2, mine[0].Asked())
		require.Equal(t, first+2, fleet.AcquireAndRelease(t, b.RedLock("job")), "nodes report the token to another client")
		require.Equal(t, 2, theirs[0].Asked(), "this took a second token round")
		require.Equal(t, first+3, fleet.AcquireAndRelease(t, b.RedLock("job")))
		require.Equal(t, 3, theirs[0].Asked(), "the other client remembers the token")
	})
}

func TestDenialReportsTheToken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease := fleet.MustAcquire(t, f.Client(fleet.SkewedBy(f, 999*time.Millisecond)).RedLock("job"))
		client, counters := f.SpiedClient()
		_ = fleet.MustBeRefused(t, client.RedLock("job"))
		fleet.Settle()
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		require.Greater(t, fleet.AcquireAndRelease(t, client.RedLock("job")), lease.Token())
		require.Equal(t, 2, counters[0].Asked(), "the denial reported the token, so one round is enough")
	})
}

// A client with a fast clock gets a token, and the nodes lose their memory. A client with a slow clock
// must get a larger token.
func TestForgottenTokenIsNotReused(t *testing.T) {
	short := func(cfg *quorumlock.Config) {
		cfg.MaxTTL, cfg.TTL, cfg.NodeTimeoutMax = 2*time.Second, time.Second, 100*time.Millisecond
	}
	for _, behind := range []time.Duration{0, time.Second, 1900 * time.Millisecond} {
		fleet.ForEachLoss(t, 3, func(t *testing.T, f *fleet.Fleet, lose func(int)) {
			fast := f.Client(short, fleet.SkewedBy(f, 999*time.Millisecond))
			slow := f.Client(short, fleet.SkewedBy(f, -behind))
			_ = fleet.AcquireAndRelease(t, slow.RedLock("job"))
			token := fleet.AcquireAndRelease(t, fast.RedLock("job"))
			for i := range f.Nodes {
				lose(i)
			}
			next, err := slow.RedLock("job").Acquire(t.Context())
			require.NoError(t, err)
			require.Greater(t, next.Token(), token)
		}, short)
	}
}

// Nodes remember a token as long as any client with an acceptable clock could propose a smaller one.
func TestNodesRememberTokensLongEnough(t *testing.T) {
	for wait := range 25 {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			token := fleet.AcquireAndRelease(t, f.Client(fleet.SkewedBy(f, 999*time.Millisecond)).RedLock("job"))
			time.Sleep(time.Duration(wait) * 500 * time.Millisecond)
			require.Greater(t, fleet.AcquireAndRelease(t, f.Client(fleet.SkewedBy(f, -9900*time.Millisecond)).RedLock("job")), token)
		})
	}
}

// A failed attempt has left a larger token on one node. The next holder needs a token above it, and holders
// after that need one above theirs, even on nodes that never saw the first.
func TestTokenExceedsTokenOfFailedContender(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fast, wires := f.SpiedClient(fleet.SkewedBy(f, 999*time.Millisecond))
		wires[1].Severed.Store(true)
		wires[2].Severed.Store(true)
		_ = fleet.MustBeRefused(t, fast.RedLock("job"))
		f.RequireNoKeys()
		client, counters := f.SpiedClient()
		f.Stop(2)
		token := fleet.AcquireAndRelease(t, client.RedLock("job"))
		require.Greater(t, token, uint64(f.Clock.Wall().UnixMicro()), "one more than the token of the failed attempt")
		require.Equal(t, 2, counters[0].Asked())
		f.Start(2)
		f.Stop(0)
		require.Greater(t, fleet.AcquireAndRelease(t, f.Client().RedLock("job")), token, "n2 and n3 never saw the token of the failed attempt")
	})
}

// Two nodes of five know a larger token. The other three take the proposed one, so the client needs no
// second token round.
func TestNoSecondTokenRoundIfAQuorumTakesTheToken(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		fast, wires := f.SpiedClient(fleet.SkewedBy(f, 999*time.Millisecond))
		for _, w := range wires[2:] {
			w.Severed.Store(true)
		}
		_ = fleet.MustBeRefused(t, fast.RedLock("job"))
		fleet.Settle()
		client, counters := f.SpiedClient()
		require.Equal(t, uint64(f.Clock.Wall().UnixMicro()), fleet.AcquireAndRelease(t, client.RedLock("job")), "three nodes took the token")
		require.Equal(t, 1, counters[0].Asked())
	})
}

// The caller gives up, or nodes hang, in the middle of the second round.
func TestFailureInSecondTokenRoundIsUndone(t *testing.T) {
	for _, c := range []struct {
		name     string
		hang     bool
		inFlight int // nodes that the second round reaches
	}{{"cancelled", false, 1}, {"two nodes hang", true, 3}} {
		t.Run(c.name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				token := fleet.AcquireAndRelease(t, f.Client().RedLock("job"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				client, counters := f.SpiedClient()
				for i, spy := range counters {
					spy.Before = fleet.OnAcquire(func() {
						switch second := spy.Asked() == 2; {
						case second && c.hang && i < 2:
							time.Sleep(600 * time.Millisecond)
						case second && !c.hang:
							cancel()
							time.Sleep(time.Millisecond)
						}
					})
				}
				_, err := client.RedLock("job").TryAcquire(ctx)
				require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
				time.Sleep(2 * time.Second)
				f.RequireNoKeys()
				// An acquisition that is still queued is not sent once its caller has given up.
				inFlight := 0
				for _, c := range counters {
					if c.Asked() == 2 {
						inFlight++
					}
				}
				require.GreaterOrEqual(t, inFlight, c.inFlight, "the second token round was in flight")
				require.Greater(t, fleet.AcquireAndRelease(t, f.Client().RedLock("job")), token)
			})
		})
	}
}

func TestClientWithWrongClockIsRefused(t *testing.T) {
	for _, c := range []struct {
		off  time.Duration
		want string
	}{
		{365 * 24 * time.Hour, "8760h0m0s ahead"},
		{1001 * time.Millisecond, "1.001s ahead"},
		{-10 * time.Second, "10s behind"},
		{-365 * 24 * time.Hour, "8760h0m0s behind"},
	} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			token := fleet.AcquireAndRelease(t, f.Client().RedLock("job"))
			began := f.Clock.Now()
			_, err := f.Client(fleet.SkewedBy(f, c.off)).RedLock("job").Acquire(t.Context())
			require.ErrorIs(t, err, node.ErrClock)
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, began, f.Clock.Now(), "Acquire fails at once, as waiting cannot help")
			f.RequireNoKeys()
			require.Equal(t, token+1, fleet.AcquireAndRelease(t, f.Client().RedLock("job")), "the refused attempt left no token")
		})
	}
}

// A node that reports absurd tokens loses its own vote, and harms no other node.
func TestNodeWithAbsurdTokensLosesItsVote(t *testing.T) {
	for _, c := range []struct {
		name string
		tell func(op wire.Op) uint64
	}{
		{"beyond all bounds", func(wire.Op) uint64 { return 1<<64 - 1 }},
		{"an hour ahead", func(op wire.Op) uint64 { return op.Token + uint64(time.Hour.Microseconds()) }},
		{"always a little ahead", func(op wire.Op) uint64 { return op.Token + 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[1] = &liar{Node: f.Nodes[1], tell: c.tell} })
				for range 10 {
					require.LessOrEqual(t, fleet.AcquireAndRelease(t, client.RedLock("job")), uint64(f.Clock.Wall().UnixMicro())+40)
				}
				_, err := client.MultiLock("job").TryAcquire(t.Context())
				require.ErrorIs(t, err, quorumlock.ErrNoQuorum, "a MultiLock needs the vote of that node")
				f.RequireNoKeys()
				lease, err := f.Client().RedLock("job").TryAcquire(t.Context())
				require.NoError(t, err)
				_ = fleet.MustBeRefused(t, client.RedLock("job")) // The denials report the token.
				require.NoError(t, lease.Release(t.Context()))
				fleet.Settle()
				_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
			})
		})
	}
}

// liar is a node that reports made-up tokens.
type liar struct {
	node.Node
	tell func(op wire.Op) uint64
}

func (l *liar) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	l.Node.Do(ctx, ops, replies)
	for i := range replies {
		switch {
		case ops[i].Kind != wire.Acquire:
		case replies[i].Outcome == wire.Granted:
			replies[i].Token = l.tell(ops[i])
		case replies[i].Outcome == wire.Denied:
			replies[i].Holder.Token = l.tell(ops[i])
		}
	}
}

// A node denies, and another one knows a larger token. The second token round asks only the nodes that
// granted in the first.
func TestSecondTokenRoundSkipsNodesThatDenied(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fast, wires := f.SpiedClient(fleet.SkewedBy(f, 999*time.Millisecond))
		wires[1].Severed.Store(true)
		wires[2].Severed.Store(true)
		_ = fleet.MustBeRefused(t, fast.RedLock("job"))
		f.RequireNoKeys()
		f.Take("job", "other", 2)
		client, counters := f.SpiedClient()
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		for i, want := range []int{2, 2, 1} {
			require.Equal(t, want, counters[i].Asked())
		}
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestTokenFromContext(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock, other := client.RedLock("job"), client.RedLock("other")
		var token uint64
		var seen context.Context
		require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
			time.Sleep(time.Millisecond)
			return other.Do(ctx, func(ctx context.Context) error {
				seen = ctx
				mine, ok := lock.Token(ctx)
				require.True(t, ok)
				others, ok := other.Token(ctx)
				require.True(t, ok)
				require.NotEqual(t, mine, others)
				nested, err := lock.TryAcquire(ctx)
				require.NoError(t, err)
				require.Equal(t, mine, nested.Token())
				token = mine
				return nested.Release(ctx)
			})
		}))
		after, ok := lock.Token(seen)
		require.True(t, ok, "the token stays readable after the end, so that a resource can reject it")
		require.Equal(t, token, after)
		for _, l := range []*quorumlock.Lock{client.RedLock("third"), f.Client().RedLock("job"), client.RedLock("")} {
			_, ok = l.Token(seen)
			require.False(t, ok)
		}
		_, ok = lock.Token(t.Context())
		require.False(t, ok)
		_, ok = client.MultiLock("job", "third").Token(seen)
		require.False(t, ok, "the context holds one of the two names")
		_, ok = client.MultiLock("job", "other").Token(seen)
		require.False(t, ok, "the context holds the names by two leases with two tokens")
	})
}
