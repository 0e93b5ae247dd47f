package tokens_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// In these tests one node of three reports wrong tokens, clocks or servers. The other two must suffice.

// A node reports larger tokens than it knows, but plausible ones. The client must not propose an even
// larger token, as the other nodes would refuse it as too far ahead of their clocks.
func TestOverstatedTokensOfOneNodeAreIgnored(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Second, fleet.RecoveryTime - time.Millisecond} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			ahead := func(wire.Op) uint64 { return uint64(f.Clock.Wall().Add(by).UnixMicro()) }
			client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[1] = &liar{Node: f.Nodes[1], tell: ahead} })
			_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
			lease, err := f.Client().RedLock("job").TryAcquire(t.Context())
			require.NoError(t, err)
			for range 20 { // Either node may answer first.
				_ = fleet.MustBeRefused(t, client.RedLock("job")) // Each denial reports a token.
			}
			require.NoError(t, lease.Release(t.Context()))
			fleet.Settle()
			_ = fleet.AcquireAndRelease(t, f.Client(fleet.SkewedBy(f, 900*time.Millisecond)).RedLock("job")) // The next attempt needs a second token round.
			for range 5 {
				_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
			}
		})
	}
}

// The good nodes know different tokens, so the client needs a further token round. The bad node rejects
// each proposal: it always reports a token as large as the proposed one.
func TestNodeThatRejectsEveryToken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fast, wires := f.SpiedClient(fleet.SkewedBy(f, 900*time.Millisecond))
		for _, only := range []int{0, 2} {
			for i, w := range wires {
				w.Severed.Store(i != only)
			}
			time.Sleep(600 * time.Millisecond)
			_ = fleet.MustBeRefused(t, fast.RedLock("job"))
			fleet.Settle()
		}
		client := f.Client(fleet.SkewedBy(f, -400*time.Millisecond), func(cfg *quorumlock.Config) {
			cfg.Nodes[1] = &liar{Node: f.Nodes[1], tell: func(op wire.Op) uint64 { return op.Token }}
		})
		_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
	})
}

// A node and a client share a machine whose clock is ahead. The other nodes refuse this client, and its
// attempts do not block other clients.
func TestNodeAndClientShareWrongClock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		ahead := testkit.NewSkewed(f.Clock, 1)
		f.Nodes[1] = memory.New("n2", ahead)
		f.Limits = wire.Limits{}
		f.SetUp(quorumlock.Config{})
		ahead.StepWall(9500 * time.Millisecond)
		wrong := f.Client(func(cfg *quorumlock.Config) { cfg.Clock = ahead })
		client, other := f.Client(), f.Client()
		for range 100 {
			require.ErrorIs(t, fleet.MustBeRefused(t, wrong.RedLock("job")), node.ErrClock)
			fleet.Settle()
			_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
			require.ErrorIs(t, fleet.MustBeRefused(t, wrong.RedLock("job")), node.ErrClock)
			fleet.Settle()
			_ = fleet.AcquireAndRelease(t, other.RedLock("job"))
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// An address leads to the server of another node, and later to no server. The client reports each
// state with its own error.
func TestAliasOfAnotherNodeGoesDown(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		alias := &fleet.Spy{Node: f.Nodes[0], Alias: "alias"}
		var down []string
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Nodes[1] = alias
			cfg.Hooks.NodeDown = func(node string, _ error) { down = append(down, node) }
		})
		alias.Severed.Store(true)
		_ = fleet.AcquireAndRelease(t, client.RedLock("job")) // The server counts as n1, as n1 identifies first.
		alias.Severed.Store(false)
		time.Sleep(time.Second)
		lease := fleet.MustAcquire(t, client.RedLock("job"))
		require.ErrorIs(t, fleet.MustBeRefused(t, client.MultiLock("other")), node.ErrSameServer)
		down = nil
		alias.Severed.Store(true)
		require.NoError(t, lease.Extend(t.Context()))
		fleet.Settle()
		require.Equal(t, []string{"alias"}, down)
		f.Stop(2)
		err := lease.Extend(t.Context())
		require.ErrorIs(t, err, node.ErrUnreachable)
		require.NotErrorIs(t, err, node.ErrSameServer)
	})
}

// suspending is a clock that suspends the process just after it was read.
type suspending struct {
	clock.Clock
	next atomic.Bool // The next reading suspends the process.
}

func (s *suspending) Wall() time.Time {
	now := s.Clock.Wall()
	if s.next.CompareAndSwap(true, false) {
		time.Sleep(15 * time.Second)
	}
	return now
}

// A proposal is too old when it arrives, as the process was suspended before it was sent. This is no
// proof of a wrong clock, so the client tries again.
func TestSuspendBetweenProposalAndSend(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := &suspending{Clock: f.Clock}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Clock = c })
		_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
		time.Sleep(time.Second)
		c.next.Store(true)
		_, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
	})
}

// A clock that was set back by an hour is refused at once. The client must not wait until the clock has
// passed the tokens that it remembers.
func TestClockSetBackFailsAtOnce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		wrong := testkit.NewSkewed(f.Clock, 1)
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Clock = wrong })
		_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
		wrong.StepWall(-time.Hour)
		began := f.Clock.Now()
		for _, name := range []string{"job", "other"} {
			_, err := client.RedLock(name).Acquire(t.Context())
			require.ErrorIs(t, err, node.ErrClock)
		}
		require.Equal(t, began, f.Clock.Now())
	})
}

// Two nodes reject every token. Their reasons are *node.Errors that name them.
func TestErrorsOfNodesThatRejectTheToken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(func(cfg *quorumlock.Config) {
			for i := range 2 {
				cfg.Nodes[i] = &liar{Node: f.Nodes[i], tell: func(op wire.Op) uint64 { return op.Token }}
			}
		})
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, fleet.MustBeRefused(t, client.RedLock("job")), &short)
		require.ErrorContains(t, short, "rejected our fencing token")
		require.NotEmpty(t, short.Nodes)
		for _, n := range short.Nodes {
			var one *node.Error
			require.ErrorAs(t, n.Err, &one, "%v", n.Err)
			require.Equal(t, n.Node, one.Node)
		}
	})
}
