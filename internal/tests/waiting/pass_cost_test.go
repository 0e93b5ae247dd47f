package waiting_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
)

// traffic counts what clients and nodes send each other.
type traffic struct {
	mu        sync.Mutex
	exchanges int // with any operation
	ops       map[node.Kind]int
	messages  map[node.MessageKind]int
}

func (c *traffic) add(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// snapshot returns a copy.
func (c *traffic) snapshot() *traffic {
	s := &traffic{ops: map[node.Kind]int{}, messages: map[node.MessageKind]int{}}
	c.add(func() {
		s.exchanges = c.exchanges
		for kind, n := range c.ops {
			s.ops[kind] = n
		}
		for kind, n := range c.messages {
			s.messages[kind] = n
		}
	})
	return s
}

// counted is a client's connection to a node. It takes some time each way, and counts.
type counted struct {
	*node.Memory
	traffic *traffic
	way     time.Duration
}

func (c *counted) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	c.traffic.add(func() {
		c.traffic.exchanges++
		for _, op := range ops {
			c.traffic.ops[op.Kind]++
		}
	})
	time.Sleep(c.way)
	c.Memory.Do(ctx, ops, replies)
	time.Sleep(c.way)
}

func (c *counted) Listen(ctx context.Context, client string, deliver func(node.Message)) (node.Inbox, error) {
	return c.Memory.Listen(ctx, client, func(m node.Message) {
		c.traffic.add(func() { c.traffic.messages[m.Kind]++ })
		time.Sleep(c.way)
		deliver(m)
	})
}

// In forced passes, a holder asks again only after another caller had the lock. With two callers in each client, half
// of the passes are hand-overs, which cost nothing. Each of the others costs every node three operations and two
// messages: a release, which wakes the next waiter and lets the one after it stand by; the acquisition of the woken
// waiter; and the denial that queues the last holder's client again.
func TestTrafficOfForcedPasses(t *testing.T) {
	const clients, callers, warm, passes = 8, 2, 100, 400
	const nodes, way, look = 5, 50 * time.Microsecond, 150 * time.Microsecond
	fleet.InVirtualTime(t, nodes, func(t *testing.T, f *fleet.Fleet) {
		sent := &traffic{ops: map[node.Kind]int{}, messages: map[node.MessageKind]int{}}
		var granted, handedOver atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var shares [clients * callers]atomic.Int64
		for number := range clients {
			lock := f.Client(func(cfg *quorumlock.Config) {
				for i, nd := range f.Nodes {
					cfg.Nodes[i] = &counted{Memory: nd, traffic: sent, way: way}
				}
				cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) {
					if e.HandedOver {
						handedOver.Add(1)
					}
				}
			}).RedLock("job")
			for i := range callers {
				all.Go(func() {
					for {
						held, err := lock.Acquire(ctx)
						if err != nil {
							return
						}
						mine := granted.Add(1)
						shares[number*callers+i].Add(1)
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

		between := float64(last-first-(taken-given)) * nodes
		per := func(n int) float64 { return float64(n) / between }
		op := func(kind node.Kind) float64 { return per(after.ops[kind] - before.ops[kind]) }
		message := func(kind node.MessageKind) float64 { return per(after.messages[kind] - before.messages[kind]) }
		t.Logf("%d passes, %d of them hand-overs. On each node, for each of the others: %.2f exchanges, %.2f acquisitions, %.2f releases, "+
			"%.2f messages to the first waiter, %.2f to the second, %.2f of undone grants",
			last-first, taken-given, per(after.exchanges-before.exchanges), op(node.Acquire), op(node.Release),
			message(node.Woken), message(node.Standby), message(node.Returned))
		require.InDelta(t, 0.5, float64(taken-given)/float64(last-first), 0.1, "hand-overs among the passes")
		require.InDelta(t, 1, op(node.Release), 0.05, "releases")
		require.InDelta(t, 2, op(node.Acquire), 0.1, "acquisitions")
		require.InDelta(t, 1, message(node.Woken), 0.05, "messages to the first waiter")
		require.LessOrEqual(t, message(node.Standby), 1.05, "messages to the second waiter")
		require.LessOrEqual(t, message(node.Returned), 0.05, "messages about undone grants")
		require.LessOrEqual(t, per(after.exchanges-before.exchanges), 3.1, "exchanges")
		mean := float64(granted.Load()) / (clients * callers)
		for i := range shares {
			require.InDelta(t, 1, float64(shares[i].Load())/mean, 0.1, "the share of caller %d", i)
		}
	})
}
