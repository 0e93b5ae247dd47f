package tokens_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// One node of three decides nothing for the others, whichever tokens, clocks or servers it reports.

// A node reports larger tokens than it has, but plausible ones. The client does not outbid them, as
// the other nodes would refuse the result.
func TestANodeThatIsAheadOfItself(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Second, fleet.RecoveryTime - time.Millisecond} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			ahead := func(node.Op) uint64 { return uint64(f.Clock.Wall().Add(by).UnixMicro()) }
			client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[1] = &boaster{Node: f.Nodes[1], tell: ahead} })
			_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
			lease, err := f.Client().RedLock("job").TryAcquire(t.Context())
			require.NoError(t, err)
			for range 20 { // The result holds whichever node answers first.
				_ = fleet.MustBeRefused(t, client.RedLock("job")) // and is told a token
			}
			require.NoError(t, lease.Release(t.Context()))
			fleet.Settle()
			_ = fleet.AcquireAndRelease(t, f.Client(fleet.SkewedBy(f, 900*time.Millisecond)).RedLock("job")) // so that a second round is needed
			for range 5 {
				_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
			}
		})
	}
}

// The good nodes know different tokens. The third node always reports a token as large as ours.
func TestANodeThatNeverTakesAToken(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fast, wires := f.WiredClient(fleet.SkewedBy(f, 900*time.Millisecond))
		for _, only := range []int{0, 2} {
			for i, w := range wires {
				w.Severed.Store(i != only)
			}
			time.Sleep(600 * time.Millisecond)
			_ = fleet.MustBeRefused(t, fast.RedLock("job"))
			fleet.Settle()
		}
		client := f.Client(fleet.SkewedBy(f, -400*time.Millisecond), func(cfg *quorumlock.Config) {
			cfg.Nodes[1] = &boaster{Node: f.Nodes[1], tell: func(op node.Op) uint64 { return op.Token }}
		})
		_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
	})
}

// A node and a client share a machine whose clock is ahead. That client gets nothing, and does not
// block others.
func TestAMachineWithAWrongClock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		ahead := clock.NewSkewed(f.Clock, 1)
		f.Nodes[1] = node.NewMemory("n2", ahead)
		f.Limits = node.Limits{}
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
func TestATwinThatDies(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		alias := &fleet.Wire{Node: f.Nodes[0], NodeName: "alias"}
		var down []string
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Nodes[1] = alias
			cfg.Hooks.NodeDown = func(node string, _ error) { down = append(down, node) }
		})
		alias.Severed.Store(true)
		_ = fleet.AcquireAndRelease(t, client.RedLock("job")) // n1 is first
		alias.Severed.Store(false)
		time.Sleep(time.Second)
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		require.ErrorIs(t, fleet.MustBeRefused(t, client.MultiLock("other")), node.ErrSameServer)
		down = nil
		alias.Severed.Store(true)
		require.NoError(t, lease.Extend(t.Context()))
		fleet.Settle()
		require.Equal(t, []string{"alias"}, down)
		f.Stop(2)
		err = lease.Extend(t.Context())
		require.ErrorIs(t, err, node.ErrUnreachable)
		require.NotErrorIs(t, err, node.ErrSameServer)
	})
}

// sleepy is a clock that a process reads just before it is suspended.
type sleepy struct {
	clock.Clock
	asleep atomic.Bool
}

func (s *sleepy) Wall() time.Time {
	now := s.Clock.Wall()
	if s.asleep.CompareAndSwap(true, false) {
		time.Sleep(15 * time.Second)
	}
	return now
}

// A proposal that is old on arrival says nothing about the clock, so another attempt helps.
func TestSuspendedBetweenProposalAndSending(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := &sleepy{Clock: f.Clock}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Clock = c })
		_ = fleet.AcquireAndRelease(t, client.RedLock("job"))
		time.Sleep(time.Second)
		c.asleep.Store(true)
		_, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
	})
}

// The clock was set back, so the client must not wait until it passes the remembered token.
func TestAClockThatIsSetBack(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		wrong := clock.NewSkewed(f.Clock, 1)
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
