package nodetest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// queueWakes has the promises about which waiter is woken, and when.
var queueWakes = []promise{
	{"a release wakes the first waiter", func(x *trial) {
		x.line("a", "c:1")
		x.receives()
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:1", "a"))
		x.want(node.Granted, waiting("c:1", 1, acquire("o2", long, "a")))
		x.want(node.Released, releaseOf("c:1", "o2", "a"))
		x.noWaiters("a")
	}},
	{"a live waiter is woken, however many dead ones stand before it", func(x *trial) {
		const dead = 400
		x.held("a")
		var ops []node.Op
		for i := range dead {
			ops = append(ops, waiting(fmt.Sprint("dead", i%7, ":", i), int64(i), acquire("o2", long, "a")))
		}
		x.do(ops...)
		x.queues("c:1", dead, dead, "a")
		for i := range dead {
			ops[i].Waiter.Ticket += dead + 1
			ops[i].Waiter.ID += "'"
		}
		x.do(ops...)
		x.queues("c:2", 2*dead+1, 2*dead+1, "a")
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:1", "a"), standby("c:2", "a"))
		x.held("a")
		x.queues("c:2", 2*dead+1, 1, "a")
	}},
	{"an entry past its deadline is not woken", func(x *trial) {
		x.held("a", "b")
		x.do(waitingFor(short, "c:1", 1, acquire("o2", long, "a", "b")))
		x.do(waiting("c:2", 2, acquire("o2", long, "a")))
		x.Pass(short)
		x.want(node.Released, release("o1", "a", "b"))
		x.receives(woken("c:2", "a"))
		x.want(node.Absent, leave("c:1", "a", "b"))
	}},
	{"a second waiter gets standby", func(x *trial) {
		other := x.listen("d")
		x.line("a", "c:1", "d:2", "c:3")
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:1", "a"))
		other.receives(standby("d:2", "a"))
	}},
	{"a waiter that cannot be told is dropped, and the next woken", func(x *trial) {
		x.line("a", "dead:1", "dead:2", "c:1", "dead:3", "c:2")
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:1", "a"), standby("c:2", "a"))
		x.held("a")
		x.queues("c:2", 5, 1, "a")
		x.want(node.Absent, leave("dead:1", "a"), leave("dead:3", "a"))
	}},
	{"any number of dead waiters is dropped in the end", func(x *trial) {
		x.held("a")
		const dead = 2500
		var ops []node.Op
		for i := range dead {
			ops = append(ops, waiting(fmt.Sprint("dead:", i), int64(i), acquire("o2", long, "a")))
		}
		x.do(ops...)
		x.queues("c:1", dead, dead, "a")
		x.want(node.Released, release("o1", "a"))
		for range 2 {
			x.want(node.Absent, release("o1", "a"))
		}
		x.receives(woken("c:1", "a"))
	}},
	{"a release wakes even if nothing was held", func(x *trial) {
		x.held("a")
		x.queues("c:1", 1, 0, "a", "b")
		x.queues("c:2", 2, 1, "a", "b")
		x.want(node.Absent, release("o3", "b"))
		x.receives(woken("c:1", "b"), standby("c:2", "b"))
		name, _ := x.promptly(func(name string) []node.Op {
			return append(freed(name, "c:1", "c:2"), release("o1", name))
		})
		x.receivesOf(name, woken("c:1", name), standby("c:2", name), woken("c:1", name), standby("c:2", name))
	}},
	{"a name that is still held wakes no waiter", func(x *trial) {
		x.held("a", "b")
		x.want(node.Granted, acquire("o2", long, "d"))
		x.queues("c:1", 1, 0, "a", "b", "d")
		x.want(node.Absent, release("o3", "a", "b", "d"))
		x.receives()
		x.want(node.Released, release("o1", "a", "d"))
		x.receives(woken("c:1", "a"))
		x.want(node.Released, leave("c:1", "b", "d"))
		x.receives()
	}},
	{"a waiter is not woken by its own undo, and keeps its place", func(x *trial) {
		// The second undo has to come within the privilege of the first waiter. Otherwise the next waiter is woken too.
		const patient = "c:1@500"
		x.line("a", patient, "c:2", "c:3")
		x.want(node.Released, waiting(patient, 1, release("o1", "a")))
		x.receives(returned("c:2", "a"))
		x.want(node.Absent, waiting("c:2", 2, release("o1", "a")))
		x.receives(returned(patient, "a"))
		x.held("a")
		x.queues(patient, 9, 0, "a")
		x.queues("c:2", 9, 1, "a")
	}},
	{"the undo of the only waiter wakes no waiter", func(x *trial) {
		x.line("a", "c:1")
		x.want(node.Released, waiting("c:1", 1, release("o1", "a")))
		x.receives()
	}},
	{"a forced release wakes", func(x *trial) {
		x.held("a")
		x.queues("c:1", 1, 0, "a", "b")
		x.queues("c:2", 2, 1, "a")
		r := x.want(node.Released, force(long, "a", "b"))
		assert.Len(x, r.Holders, 1)
		x.receives(woken("c:1", "a"), standby("c:2", "a"), woken("c:1", "b"))
	}},
	{"a waiter that leaves has no entry, and passes its wake on", func(x *trial) {
		x.held("a", "b")
		x.queues("c:1", 1, 0, "a", "b")
		x.queues("c:2", 2, 1, "a", "b")
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:1", "a"), standby("c:2", "a"))
		x.want(node.Released, leave("c:1", "a", "b"))
		x.receives(woken("c:2", "a"))
		x.want(node.Absent, leave("c:1", "a", "b"))
		x.receives(woken("c:2", "a"))
		x.queues("c:2", 2, 0, "b")
		x.keys("b")
	}},
	{"a renewal, an inspection and a denial wake no waiter", func(x *trial) {
		x.held("a")
		x.queues("c:1", 1, 0, "a", "b")
		x.want(node.Healed, renew("o1", long, "a", "b"))
		x.want(node.Inspected, inspect("a", "b"))
		x.denied(acquire("o2", long, "a", "d"), "a", "o1")
		x.receives()
	}},
	{"a thousand wait", func(x *trial) {
		x.held("a")
		const many = 1000
		ops := make([]node.Op, many)
		for i := range ops {
			ops[i] = waiting(fmt.Sprintf("c:%04d", i), int64(many-i), acquire("o2", long, "a"))
		}
		for some := range slices.Chunk(ops, 100) {
			for _, r := range x.do(some...) {
				x.outcome(node.Denied, r)
				require.Zero(x, r.Rank)
			}
		}
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:0999", "a"), standby("c:0998", "a"))
		x.held("a")
		x.waits(many-1, ops[0])
	}},
}
