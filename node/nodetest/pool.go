package nodetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// pool is the pool of the promises about pools.
var pool = node.PoolName("pool")

// slotNames returns the names of slots of that pool.
func slotNames(slots ...int) []string {
	names := make([]string, len(slots))
	for i, slot := range slots {
		names[i] = node.SlotName(pool, slot)
	}
	return names
}

// of makes the operation one on the pool with this size.
func of(size int, op node.Op) node.Op {
	op.Pool.Name, op.Pool.Size = pool, size
	return op
}

// take acquires slots of the pool with this size.
func take(size int, owner string, slots ...int) node.Op {
	return of(size, acquire(owner, long, slotNames(slots...)...))
}

// give releases slots of the pool with this size.
func give(size int, owner string, slots ...int) node.Op {
	return of(size, release(owner, slotNames(slots...)...))
}

func leavePool(size int, id string) node.Op { return of(size, leave(id, pool)) }

func resize(size int, version uint64) node.Op {
	return node.Op{
		Kind: node.Resize, Names: []string{pool},
		Pool: node.Pool{Name: pool, Size: size, Version: version},
	}
}

// full requires that an acquisition is denied with this size in force, and with these slots free.
func (x *trial) full(op node.Op, size int, free ...int) node.Reply {
	x.Helper()
	return x.isFull(x.want(node.Denied, op), size, free...)
}

func (x *trial) isFull(r node.Reply, size int, free ...int) node.Reply {
	x.Helper()
	x.outcome(node.Denied, r)
	assert.Equal(x, size, r.Pool.Size)
	require.Len(x, r.Pool.Free, (size+7)/8)
	var told []int
	for i := range 8 * len(r.Pool.Free) {
		if r.Pool.Free[i/8]&(1<<(i%8)) != 0 {
			told = append(told, i)
		}
	}
	assert.Equal(x, free, told)
	return r
}

// vacant is the name in a message that tells a waiter to take slots.
func vacant(slots string) string { return "quorumlock:permit:" + slots + ":{pool}" }

// pooling has the promises about the slots of a pool.
var pooling = []promise{
	{"a slot is held once", func(x *trial) {
		x.want(node.Granted, take(3, "o1", 0))
		r := x.full(take(3, "o2", 0), 3, 1, 2)
		assert.Equal(x, node.SlotName(pool, 0), r.Holder.Name)
		assert.Equal(x, "o1", r.Holder.Owner)
		x.want(node.Granted, take(3, "o2", 1), take(3, "o3", 2))
		r = x.full(take(3, "o4", 2), 3)
		assert.Greater(x, r.Holder.TTL, long-slack)
	}},
	{"several slots are taken together or not at all", func(x *trial) {
		x.want(node.Granted, take(4, "o1", 1))
		x.full(take(4, "o2", 0, 1, 2), 4, 0, 2, 3)
		x.want(node.Granted, take(4, "o2", 0, 2, 3))
		x.want(node.Released, give(4, "o2", 0, 2, 3))
		x.full(take(4, "o3", 1), 4, 0, 2, 3)
	}},
	{"repeating changes nothing", func(x *trial) {
		op := x.complete(take(2, "o1", 0, 1))
		x.want(node.Granted, op)
		r := x.do(op)[0]
		x.answered(node.Granted, r)
		assert.Equal(x, op.Token, r.Token)
		x.want(node.Released, give(2, "o1", 0, 1))
		x.want(node.Absent, give(2, "o1", 0, 1))
		x.want(node.Granted, take(2, "o2", 0))
		x.want(node.Absent, give(2, "o1", 0))
		x.full(take(2, "o3", 0), 2, 1)
	}},
	{"each slot has its own TTL", func(x *trial) {
		x.want(node.Granted, of(2, acquire("o1", short, slotNames(0)...)), take(2, "o2", 1))
		x.Pass(short)
		x.full(take(2, "o3", 1), 2, 0)
		x.want(node.Granted, take(2, "o3", 0))
	}},
	{"a slot is renewed, inspected and put back as a lock is", func(x *trial) {
		x.want(node.Granted, of(2, acquire("o1", brief, slotNames(1)...)), renew("o1", long, slotNames(1)...))
		x.lives(long, slotNames(1)...)
		x.want(node.Healed, renew("o1", long, slotNames(0, 1)...))
		x.full(take(2, "o2", 0), 2)
	}},
	{"each slot has its own fence", func(x *trial) {
		low := x.token()
		high := x.token()
		x.want(node.Granted, proposing(high, take(2, "o1", 0)))
		x.want(node.Released, give(2, "o1", 0))
		x.want(node.Granted, proposing(low, take(2, "o2", 1)))
		r := x.do(proposing(low, take(2, "o3", 0)))[0]
		x.answered(node.Granted, r)
		assert.Equal(x, high, r.Token)
	}},
	{"bitmaps of any size", func(x *trial) {
		for _, size := range []int{1, 7, 8, 9, 16, 17, 1000} {
			last := size - 1
			x.want(node.Granted, take(size, "o1", last))
			var free []int
			for i := range last {
				free = append(free, i)
			}
			x.full(take(size, "o2", last), size, free...)
			x.want(node.Released, give(size, "o1", last))
		}
	}},
	{"a slot beyond the size is not granted", func(x *trial) {
		r := x.full(take(2, "o1", 2), 2, 0, 1)
		assert.Empty(x, r.Holder.Owner)
		assert.Zero(x, r.Holder.TTL)
		x.want(node.Granted, take(2, "o2", 0))
		r = x.full(take(2, "o1", 1, 2), 2, 1)
		assert.Equal(x, "o2", r.Holder.Owner)
		assert.Equal(x, slotNames(2)[0], r.Holder.Name)
	}},
	{"a denial says when enough are free", func(x *trial) {
		for i, ttl := range []time.Duration{long, brief, middle} {
			x.want(node.Granted, of(3, acquire(fmt.Sprint("o", i), ttl, slotNames(i)...)))
		}
		for n, ttl := range []time.Duration{brief, middle, long} {
			var all []int
			for i := range n + 1 {
				all = append(all, i)
			}
			left := x.full(take(3, "other", all...), 3).Holder.TTL
			assert.LessOrEqual(x, left, ttl)
			assert.Greater(x, left, ttl-slack)
		}
	}},
	{"names with braces have pools of their own", func(x *trial) {
		for _, name := range []string{"a", "{a}", "{a}b", "a{b}", "{a", "{", "{}", "a}"} {
			p := node.PoolName(name)
			x.want(node.Granted, node.Op{
				Kind: node.Acquire, Names: []string{node.SlotName(p, 0)}, Owner: "o", TTL: long,
				Pool: node.Pool{Name: p, Size: 1},
			})
		}
	}},
	{"the size of one semaphore is no permit of another", func(x *trial) {
		for _, name := range []string{"a", "{a}", "{a}:1", "a:0", "{}"} {
			mine, other := node.PoolName(name), node.PoolName(name+":0")
			x.want(node.Granted, node.Op{
				Kind: node.Resize, Names: []string{other}, Pool: node.Pool{Name: other, Size: 3, Version: 7},
			})
			x.want(node.Granted, node.Op{
				Kind: node.Acquire, Names: []string{node.SlotName(mine, 0)}, Owner: "o", TTL: long,
				Pool: node.Pool{Name: mine, Size: 1},
			})
			x.want(node.Denied, node.Op{Kind: node.Resize, Names: []string{other}, Pool: node.Pool{Name: other, Size: 3, Version: 0}})
		}
	}},
	{"another limit, another clock, a recovery: as for a lock", func(x *trial) {
		x.fails(node.ErrSettings, under(fleeting, of(1, acquire("o1", short, slotNames(0)...))))
		x.fails(node.ErrClock, proposing(1, take(1, "o1", 0)))
		x.Forget()
		x.fails(node.ErrRecovering, take(1, "o1", 0))
	}},
	{"a later size counts for all callers", func(x *trial) {
		x.want(node.Granted, take(4, "o1", 3), resize(2, 10), resize(2, 10))
		for _, version := range []uint64{0, 9, 10} { // version 0 only asks
			r := x.want(node.Denied, resize(5, version))
			assert.Equal(x, node.PoolState{Size: 2, Version: 10}, r.Pool)
		}
		r := x.full(take(4, "o2", 2), 2, 0, 1)
		assert.Equal(x, uint64(10), r.Pool.Version)
		x.answered(node.Granted, x.do(take(4, "o1", 3))[0]) // earlier grants stay
		x.want(node.Granted, renew("o1", long, slotNames(3)...), take(4, "o2", 1))
		x.want(node.Released, give(4, "o1", 3))
		x.full(take(4, "o1", 3), 2, 0)
		x.want(node.Granted, resize(8, 11), take(4, "o1", 7))
	}},
	{"asking for the size changes nothing", func(x *trial) {
		r := x.want(node.Denied, resize(5, 0))
		assert.Zero(x, r.Pool)
		x.full(take(2, "o1", 2), 2, 0, 1)
	}},
	{"a grant tells a node of a later size", func(x *trial) {
		late := take(2, "o1", 0)
		late.Pool.Version = 7
		x.want(node.Granted, late)
		x.full(take(9, "o2", 2), 2, 1)
		x.want(node.Granted, resize(3, 8))
		late.Owner, late.Names, late.Token = "o3", slotNames(1), 0
		x.want(node.Granted, x.complete(late))
		x.full(take(9, "o2", 3), 3, 2)
	}},
	{"something else at the name of a pool", func(x *trial) {
		x.Plant(pool)
		x.permanently(node.ErrWrongType, take(2, "o1", 0))
		x.permanently(node.ErrWrongType, resize(2, 1))
		x.want(node.Absent, give(2, "o1", 0), leavePool(2, "c:1"))
	}},
	{"something else at the name of a slot", func(x *trial) {
		x.Plant(slotNames(0)[0])
		x.permanently(node.ErrWrongType, take(2, "o1", 0, 1))
		x.want(node.Granted, take(2, "o1", 1))
		x.full(take(2, "o2", 1), 2)
		x.want(node.Released, give(2, "o1", 0, 1))
	}},
}
