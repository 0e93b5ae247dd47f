package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// permits are a full pool, apart from spare slots.
type permits struct {
	*passes
	size int
}

func newPermits(b testing.TB, server *redisproc.Server, size, spare int) *permits {
	b.Helper()
	x := &permits{newPasses(b, server), size}
	for i := range size - spare {
		x.run(wire.Granted, x.take(fmt.Sprint("h", i), i))
	}
	return x
}

func (x *permits) op(kind wire.Kind, owner string, slots ...int) wire.Op {
	op := wire.Op{
		Kind: kind, Owner: owner, TTL: 10 * time.Minute, Limits: x.limits, Fair: true,
		Pool: wire.Pool{Name: wire.PoolName("a"), Size: x.size}, Token: uint64(time.Now().UnixMicro()),
	}
	for _, i := range slots {
		op.Names = append(op.Names, wire.SlotName(op.Pool.Name, i))
	}
	return op
}

func (x *permits) take(owner string, slots ...int) wire.Op {
	return x.op(wire.Acquire, owner, slots...)
}

// deny asks for a slot that is held.
func (x *permits) deny() {
	x.run(wire.Denied, x.take("o", 0))
}

// queue asks for it on behalf of a waiter.
func (x *permits) queue() {
	op := x.take("o", 0)
	op.Waiter = wire.Waiter{ID: wire.PoolWaiterID("6CXZKXDRDNPVLCWLEUMJ3GMSNH:100001", 1) + "@50", Ticket: 1, Keep: 4 * time.Second}
	x.run(wire.Denied, op)
}

// pair takes the last slot and gives it back.
func (x *permits) pair() {
	x.run(wire.Granted, x.take("o", x.size-1))
	x.run(wire.Released, x.op(wire.Release, "o", x.size-1))
}

// lockPair takes a lock and gives it back, each alone.
func (x *permits) lockPair() {
	op := x.acquire(wire.Waiter{})
	op.Owner = "o"
	x.run(wire.Granted, op)
	x.run(wire.Released, wire.Op{Kind: wire.Release, Names: []string{"a"}, Owner: "o"})
}

// BenchmarkPermitCost measures what the scripts of a semaphore cost a server.
func BenchmarkPermitCost(b *testing.B) {
	for _, size := range []int{16, 128, 1024} {
		for what, run := range map[string]func(*permits){
			"denied": (*permits).deny, "queued": (*permits).queue, "pair": (*permits).pair, "lock": (*permits).lockPair,
		} {
			b.Run(fmt.Sprintf("op=%s/permits=%d", what, size), func(b *testing.B) {
				server := redisproc.Start(b)
				spare := 0
				if what == "pair" {
					spare = 1
				}
				x := newPermits(b, server, size, spare)
				run(x)
				reportCost(b, server, 1, func() { run(x) })
			})
		}
		b.Run(fmt.Sprintf("op=beat/pools=64/permits=%d", size), func(b *testing.B) {
			server := redisproc.Start(b)
			x := newPermits(b, server, size, 0)
			ops, op := make([]wire.Op, 0, 63), wire.Op{Kind: wire.Refresh, TTL: 4 * time.Second}
			for i := range 64 {
				pool := wire.Pool{Name: wire.PoolName(fmt.Sprint("p", i)), Size: size}
				for s := range size {
					take := x.take("h", 0)
					take.Pool, take.Names = pool, []string{wire.SlotName(pool.Name, s)}
					if ops = append(ops, take); len(ops) == 64 || s == size-1 {
						x.run(wire.Granted, ops...)
						ops = ops[:0]
					}
				}
				w := wire.Waiter{ID: fmt.Sprintf("c:%d@50", i), Ticket: int64(i)}
				op.Names = append(op.Names, pool.Name)
				op.Waiting = append(op.Waiting, wire.Waiting{Waiter: w, Names: []string{pool.Name}, Pool: pool})
			}
			beat := func() {
				replies := make([]wire.Reply, 1)
				x.node.Do(context.Background(), []wire.Op{op}, replies)
				require.NoError(b, replies[0].Err)
				require.Len(b, replies[0].Standings, 64)
			}
			start := costOf(b, server)["eval"].usec
			beat()
			b.Logf("first beat: %.0f us", costOf(b, server)["eval"].usec-start)
			reportCost(b, server, 1, beat)
		})
	}
}
