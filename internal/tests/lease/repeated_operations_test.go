package lease_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// repeating is an in-memory node that runs acquisitions twice, as happens after a broken
// connection.
type repeating struct {
	*memory.Node
	// times counts the acquisitions that the node still repeats. If denies is set, the node denies
	// the second run, as if another owner had come between the two.
	times  atomic.Int32
	denies bool
}

func (r *repeating) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	r.Node.Do(ctx, ops, replies)
	if ops[0].Kind != wire.Acquire || r.times.Add(-1) < 0 {
		return
	}
	r.Node.Do(ctx, ops, replies)
	for i := range replies {
		if r.denies {
			replies[i] = wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: ops[i].Names[0], Owner: "another", TTL: time.Second}}
		}
		replies[i].Repeated = true
	}
}

func repeatedly(f *fleet.Fleet, times int32, denies bool) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		cfg.Nodes = nil
		for _, nd := range f.Nodes {
			r := &repeating{Node: nd, denies: denies}
			r.times.Store(times)
			cfg.Nodes = append(cfg.Nodes, r)
		}
	}
}

// The second run of an acquisition finds the token of the first run, and is rejected because of it. The client
// then proposes a larger token.
func TestRepeatedAcquisitionSucceeds(t *testing.T) {
	for times := range int32(3) {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			lease, err := f.Client(repeatedly(f, times, false)).RedLock("a").TryAcquire(t.Context())
			require.NoError(t, err, "repeated %d times", times)
			require.NoError(t, lease.Release(t.Context()))
			f.RequireNoKeys()
		})
	}
}

// The second run is denied, but the first run may have been granted. So the client must undo the
// acquisition.
func TestRepeatedDenialsAreUndone(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		_, err := f.Client(repeatedly(f, 1, true)).RedLock("a").TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		f.RequireNoKeys()
	})
}

// straying holds up the next exchange with an acquisition, which the client counts as timed out.
type straying struct {
	node.Node
	strays atomic.Bool
	stray  []wire.Op
}

func (s *straying) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	if ops[0].Kind != wire.Acquire || !s.strays.CompareAndSwap(true, false) {
		s.Node.Do(ctx, ops, replies)
		return
	}
	s.stray = slices.Clone(ops)
	for i, op := range ops {
		replies[i] = wire.Reply{Err: &node.Error{Node: s.Name(), Op: op.Kind.String(), Reason: node.ErrTimeout}}
	}
}

// The acquisition of one node strays in the network. Meanwhile the holder gets a longer time on the others, of which it
// then cannot reach one. The late acquisition must not shorten the time on the node that the holder needs.
func TestLateAcquisitionShortensNoLease(t *testing.T) {
	const ttl, longer = time.Second, 9 * time.Second
	for how, prolong := range map[string]func(t *testing.T, lease *quorumlock.Lease){
		"by ExtendFor":   func(t *testing.T, lease *quorumlock.Lease) { require.NoError(t, lease.ExtendFor(t.Context(), longer)) },
		"by its MinHold": func(t *testing.T, lease *quorumlock.Lease) { require.NoError(t, lease.Release(t.Context())) },
	} {
		t.Run(how, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				first, third := &fleet.Spy{Node: f.Nodes[0]}, &straying{Node: f.Nodes[2]}
				client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[0], cfg.Nodes[2] = first, third })
				options := quorumlock.LockOptions{TTL: ttl, Fixed: true}
				if how == "by its MinHold" {
					options = quorumlock.LockOptions{TTL: ttl, MinHold: longer}
				}
				fleet.AcquireAndRelease(t, client.RedLock("warm"))
				third.strays.Store(true)
				began := f.Clock.Now()
				lease := fleet.MustAcquire(t, client.RedLock("job").With(options))
				fleet.Settle()
				require.Equal(t, 2, f.Keys(), "one acquisition strays")
				first.Severed.Store(true)
				time.Sleep(ttl / 2)
				prolong(t, lease)
				fleet.Settle()
				third.Node.Do(t.Context(), third.stray, make([]wire.Reply, len(third.stray)))
				next, err := f.Client().RedLock("job").Acquire(t.Context())
				require.NoError(t, err)
				require.GreaterOrEqual(t, f.Clock.Now()-began, longer, "a second lease began in the time of the first")
				require.NoError(t, next.Release(t.Context()))
			})
		})
	}
}
