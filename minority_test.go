package quorumlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// What one node of three says of tokens, clocks and servers decides nothing for the others.

// A node tells larger tokens than it has, by less than could be. They are not chased: the
// other nodes would refuse what outbids them.
func TestANodeThatIsAheadOfItself(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Second, recovery - time.Millisecond} {
		inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
			ahead := func(node.Op) uint64 { return uint64(f.clock.Wall().Add(by).UnixMicro()) }
			client := f.client(func(cfg *quorumlock.Config) { cfg.Nodes[1] = &boaster{Node: f.nodes[1], tell: ahead} })
			_ = use(t, client.RedLock("job"))
			lease, err := f.client().RedLock("job").TryAcquire(t.Context())
			require.NoError(t, err)
			for range 20 { // whoever answers first
				_ = refuses(t, client.RedLock("job")) // and is told a token
			}
			require.NoError(t, lease.Release(t.Context()))
			settled()
			_ = use(t, f.client(off(f, 900*time.Millisecond)).RedLock("job")) // so that a second round is needed
			for range 5 {
				_ = use(t, client.RedLock("job"))
			}
		})
	}
}

// The good nodes know different tokens, and the third always one as large as ours.
func TestANodeThatNeverTakesAToken(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		fast, wires := f.wired(off(f, 900*time.Millisecond))
		for _, only := range []int{0, 2} {
			for i, w := range wires {
				w.severed.Store(i != only)
			}
			time.Sleep(600 * time.Millisecond)
			_ = refuses(t, fast.RedLock("job"))
			settled()
		}
		client := f.client(off(f, -400*time.Millisecond), func(cfg *quorumlock.Config) {
			cfg.Nodes[1] = &boaster{Node: f.nodes[1], tell: func(op node.Op) uint64 { return op.Token }}
		})
		_ = use(t, client.RedLock("job"))
	})
}

// One machine has a node and a client on it, and a clock that is ahead. That client gets
// nothing, and is in nobody's way.
func TestAMachineWithAWrongClock(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		ahead := clock.NewSkewed(f.clock, 1)
		f.nodes[1] = node.NewMemory("n2", ahead)
		f.limits = node.Limits{}
		f.setUp(quorumlock.Config{})
		ahead.StepWall(9500 * time.Millisecond)
		wrong := f.client(func(cfg *quorumlock.Config) { cfg.Clock = ahead })
		client, other := f.client(), f.client()
		for range 100 {
			require.ErrorIs(t, refuses(t, wrong.RedLock("job")), node.ErrClock)
			settled()
			_ = use(t, client.RedLock("job"))
			require.ErrorIs(t, refuses(t, wrong.RedLock("job")), node.ErrClock)
			settled()
			_ = use(t, other.RedLock("job"))
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// An address that leads to the server of another, and nowhere later: it is told what it is.
func TestATwinThatDies(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		alias := &wire{Node: f.nodes[0], name: "alias"}
		var down []string
		client := f.client(func(cfg *quorumlock.Config) {
			cfg.Nodes[1] = alias
			cfg.Hooks.NodeDown = func(node string, _ error) { down = append(down, node) }
		})
		alias.severed.Store(true)
		_ = use(t, client.RedLock("job")) // n1 is first
		alias.severed.Store(false)
		time.Sleep(time.Second)
		lease, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		settled()
		require.ErrorIs(t, refuses(t, client.MultiLock("other")), node.ErrSameServer)
		down = nil
		alias.severed.Store(true)
		require.NoError(t, lease.Extend(t.Context()))
		settled()
		require.Equal(t, []string{"alias"}, down)
		f.stop(2)
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

// A proposal that is old when it arrives says nothing about the clock: another attempt
// helps.
func TestSuspendedBetweenProposalAndSending(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c := &sleepy{Clock: f.clock}
		client := f.client(func(cfg *quorumlock.Config) { cfg.Clock = c })
		_ = use(t, client.RedLock("job"))
		time.Sleep(time.Second)
		c.asleep.Store(true)
		_, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
	})
}

// A token that was remembered before the clock was set back is not waited for.
func TestAClockThatIsSetBack(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		wrong := clock.NewSkewed(f.clock, 1)
		client := f.client(func(cfg *quorumlock.Config) { cfg.Clock = wrong })
		_ = use(t, client.RedLock("job"))
		wrong.StepWall(-time.Hour)
		began := f.clock.Now()
		for _, name := range []string{"job", "other"} {
			_, err := client.RedLock(name).Acquire(t.Context())
			require.ErrorIs(t, err, node.ErrClock)
		}
		require.Equal(t, began, f.clock.Now())
	})
}
