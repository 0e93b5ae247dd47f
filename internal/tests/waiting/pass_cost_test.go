package waiting_test

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// traffic counts the operations of clients and the messages of nodes.
type traffic struct {
	mu        sync.Mutex
	exchanges int // with any operation
	ops       map[wire.Kind]int
	messages  map[wire.MessageKind]int
}

// watch counts what passes a spy.
func (c *traffic) watch(s *fleet.Spy) {
	s.Before = func(ops []wire.Op) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.exchanges++
		for _, op := range ops {
			c.ops[op.Kind]++
		}
	}
	s.Message = func(m wire.Message) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.messages[m.Kind]++
		return true
	}
}

// snapshot returns a copy.
func (c *traffic) snapshot() *traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &traffic{exchanges: c.exchanges, ops: maps.Clone(c.ops), messages: maps.Clone(c.messages)}
}

// In forced passes, a holder asks again only after another caller had the lock. If two callers of each client hold it
// for no time, half of the passes are hand-overs, which cost nothing. Each of the others costs every node three
// operations and two messages: a release, which wakes the next waiter and lets the one after it stand by; the
// acquisition of the woken waiter; and the denial that queues the last holder's client again.
func TestTrafficOfForcedPasses(t *testing.T) {
	const passes = 400
	fleet.InVirtualTime(t, passNodes, func(t *testing.T, f *fleet.Fleet) {
		p := forcePasses(t, f, passes, 0)
		require.InDelta(t, 0.5, p.handedOver, 0.1, "hand-overs among the passes")
		require.InDelta(t, 1, p.op(wire.Release), 0.05, "releases")
		require.InDelta(t, 2, p.op(wire.Acquire), 0.1, "acquisitions")
		require.InDelta(t, 1, p.message(wire.Woken), 0.05, "messages to the first waiter")
		require.InDelta(t, 1, p.message(wire.Standby), 0.05, "messages to the second waiter")
		require.LessOrEqual(t, p.message(wire.Returned), 0.05, "messages about undone grants")
		require.LessOrEqual(t, p.exchanges, 3.1, "exchanges")
		for caller, share := range p.shares {
			require.InDelta(t, 1, share, 0.1, "the share of caller %d", caller)
		}
	})
}

// A caller that is back before its client releases gets the lock by a hand-over. So nearly all forced passes of
// callers that hold the lock for a moment are hand-overs.
func TestForcedPassesWithAHoldAreHandovers(t *testing.T) {
	const passes, hold = 8000, 300 * time.Microsecond
	fleet.InVirtualTime(t, passNodes, func(t *testing.T, f *fleet.Fleet) {
		require.Greater(t, forcePasses(t, f, passes, hold).handedOver, 0.95)
	})
}

// passCost is what forced passes cost: the part that was handed over; for each node and each of the other passes, the
// exchanges, operations and messages; and the callers' shares of the grants, relative to the mean.
type passCost struct {
	handedOver, exchanges float64
	op                    func(wire.Kind) float64
	message               func(wire.MessageKind) float64
	shares                []float64
}

// passNodes is the number of nodes of the tests of forced passes.
const passNodes = 5

// forcePasses runs forced passes among eight clients with two callers each, and counts the given number of them.
func forcePasses(t *testing.T, f *fleet.Fleet, passes int64, hold time.Duration) passCost {
	t.Helper()
	const clients, callers, warm, way, look = 8, 2, 100, 50 * time.Microsecond, 150 * time.Microsecond
	sent := &traffic{ops: map[wire.Kind]int{}, messages: map[wire.MessageKind]int{}}
	var granted, handedOver atomic.Int64
	var each [clients * callers]atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for number := range clients {
		client, spies := f.DistantClient(way, func(cfg *quorumlock.Config) {
			cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) {
				if e.HandedOver {
					handedOver.Add(1)
				}
			}
		})
		for _, s := range spies {
			sent.watch(s)
		}
		lock := client.RedLock("job")
		for i := range callers {
			all.Go(func() {
				for {
					held, err := lock.Acquire(ctx)
					if err != nil {
						return
					}
					mine := granted.Add(1)
					each[number*callers+i].Add(1)
					time.Sleep(hold)
					_ = held.Release(context.WithoutCancel(ctx))
					for ctx.Err() == nil && granted.Load() == mine {
						time.Sleep(look)
					}
				}
			})
		}
	}
	await := func(n int64) {
		for granted.Load() < n {
			time.Sleep(look)
		}
	}
	await(warm)
	before, first, given := sent.snapshot(), granted.Load(), handedOver.Load()
	await(first + passes)
	after, last, taken := sent.snapshot(), granted.Load(), handedOver.Load()
	stop()
	all.Wait()

	counted, local := float64(last-first), float64(taken-given)
	require.Greater(t, counted, local, "some passes go between clients")
	per := func(n int) float64 { return float64(n) / (counted - local) / passNodes }
	p := passCost{
		handedOver: local / counted,
		exchanges:  per(after.exchanges - before.exchanges),
		op:         func(kind wire.Kind) float64 { return per(after.ops[kind] - before.ops[kind]) },
		message:    func(kind wire.MessageKind) float64 { return per(after.messages[kind] - before.messages[kind]) },
	}
	for i := range each {
		p.shares = append(p.shares, float64(each[i].Load())*clients*callers/float64(granted.Load()))
	}
	t.Logf("%.0f passes, %.1f%% of them hand-overs. On each node, for each of the others: %.2f exchanges, %.2f acquisitions, "+
		"%.2f releases, %.2f messages to the first waiter, %.2f to the second, %.2f of undone grants", counted, 100*p.handedOver,
		p.exchanges, p.op(wire.Acquire), p.op(wire.Release), p.message(wire.Woken), p.message(wire.Standby), p.message(wire.Returned))
	return p
}
