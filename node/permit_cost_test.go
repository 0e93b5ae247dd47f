package node

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// permits is a pool whose slots are held, apart from the last one.
type permits struct {
	*passes
	size int
	pool string
}

func newPermits(b testing.TB, x *passes, size int, semaphore string) *permits {
	b.Helper()
	p := &permits{x, size, wire.PoolName(semaphore)}
	for from := 0; from < size-1; from += costBatch {
		var ops []wire.Op
		for i := from; i < min(from+costBatch, size-1); i++ {
			ops = append(ops, p.op(wire.Acquire, "h", i))
		}
		p.run(wire.Granted, ops...)
	}
	return p
}

func (p *permits) op(kind wire.Kind, owner string, slots ...int) wire.Op {
	op := wire.Op{
		Kind: kind, Owner: owner, TTL: time.Hour, Limits: p.limits, Fair: true,
		Pool: wire.Pool{Name: p.pool, Size: p.size}, Token: uint64(time.Now().UnixMicro()),
	}
	for _, i := range slots {
		op.Names = append(op.Names, wire.SlotName(p.pool, i))
	}
	return op
}

// deny asks for two slots, while one is free.
func (p *permits) deny() { p.run(wire.Denied, p.op(wire.Acquire, "o", 0, p.size-1)) }

// queue does so on behalf of a waiter.
func (p *permits) queue() {
	op := p.op(wire.Acquire, "o", 0, p.size-1)
	op.Waiter = p.waiter(1)
	op.Waiter.ID = wire.PoolWaiterID(op.Waiter.ID, 2)
	p.run(wire.Denied, op)
}

// pair takes the last slot and gives it back.
func (p *permits) pair() {
	p.run(wire.Granted, p.op(wire.Acquire, "o", p.size-1))
	p.run(wire.Released, p.op(wire.Release, "o", p.size-1))
}

// lockPair takes a lock and gives it back, each in an exchange of its own.
func (p *permits) lockPair(reads bool) {
	op := p.acquire(wire.Waiter{})
	op.Reads = reads
	p.run(wire.Granted, op)
	p.run(wire.Released, wire.Op{Kind: wire.Release, Names: op.Names, Owner: op.Owner, Reads: reads})
}

var permitCosts = map[string]func(*permits){
	"denied": (*permits).deny, "queued": (*permits).queue, "pair": (*permits).pair,
	"lock": func(p *permits) { p.lockPair(false) }, "read": func(p *permits) { p.lockPair(true) },
}

// beat makes an operation that asks how the waiters of full pools stand.
func beat(pools []*permits) wire.Op {
	op := wire.Op{Kind: wire.Refresh, TTL: 4 * time.Second}
	for i, p := range pools {
		op.Names = append(op.Names, p.pool)
		op.Waiting = append(op.Waiting, wire.Waiting{
			Waiter: wire.Waiter{ID: fmt.Sprintf("c:%d*2@50", i), Ticket: int64(i)}, Names: []string{p.pool},
			Pool: wire.Pool{Name: p.pool, Size: p.size},
		})
	}
	return op
}

// BenchmarkPermitCost measures what the scripts of semaphores cost a server, beside those of a lock.
func BenchmarkPermitCost(b *testing.B) {
	for _, size := range []int{16, 128, 1024} {
		for what, run := range permitCosts {
			b.Run(fmt.Sprintf("op=%s/permits=%d", what, size), func(b *testing.B) {
				server := redisproc.Start(b)
				p := newPermits(b, newPasses(b, server), size, "a")
				run(p)
				reportCost(b, server, 1, func() { run(p) })
			})
		}
		b.Run(fmt.Sprintf("op=beat/pools=64/permits=%d", size), func(b *testing.B) {
			server := redisproc.Start(b)
			x := newPasses(b, server)
			var pools []*permits
			for i := range 64 {
				pools = append(pools, newPermits(b, x, size, fmt.Sprint("p", i)))
			}
			op := beat(pools)
			ask := func() {
				replies := make([]wire.Reply, 1)
				x.node.Do(context.Background(), []wire.Op{op}, replies)
				require.NoError(b, replies[0].Err)
				require.Len(b, replies[0].Standings, len(pools))
			}
			ask()
			reportCost(b, server, 1, ask)
		})
	}
}

// What a denial costs does not depend on the size of the pool, and a permit or a reader costs little more than a lock.
func TestCommandsOfPermits(t *testing.T) {
	server := redisproc.Start(t)
	x, costs := newPasses(t, server), make(map[string]int)
	for _, size := range []int{16, 1024} {
		for what, run := range permitCosts {
			key := fmt.Sprint(what, size)
			p := newPermits(t, x, size, key)
			run(p) // the server learns the scripts, and makes the index
			for range 5 {
				before := commandsOf(costOf(t, server))
				run(p)
				cost := commandsOf(costOf(t, server)) - before - 1 // INFO
				costs[key] = min(cost, cmp.Or(costs[key], cost))
			}
		}
	}
	assert.Equal(t, costs["denied16"], costs["denied1024"])
	assert.Equal(t, costs["queued16"], costs["queued1024"])
	assert.LessOrEqual(t, costs["denied1024"], 13)
	assert.LessOrEqual(t, costs["queued1024"], 20)
	assert.LessOrEqual(t, costs["pair1024"], costs["lock1024"]+3)
	assert.LessOrEqual(t, costs["read1024"], costs["lock1024"]+4)
	t.Log(costs)
}
