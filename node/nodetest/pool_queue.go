package nodetest

import (
	"fmt"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

// pooledWaits has the promises about waiters for slots.
var pooledWaits = []promise{
	{"a release wakes the first, and says what to take", func(x *trial) {
		x.want(node.Granted, take(2, "o1", 0), take(2, "o2", 1))
		x.full(waiting("c:1", 1, take(2, "o3", 0)), 2)
		r := x.full(waiting("c:2", 2, take(2, "o4", 1)), 2)
		assert.Equal(x, 1, r.Rank)
		x.receives()
		x.want(node.Released, give(2, "o2", 1))
		x.receives(woken("c:1", vacant("1")), standby("c:2", vacant("")))
		x.want(node.Granted, fair(waiting("c:1", 1, take(2, "o3", 1))))
		x.want(node.Released, give(2, "o1", 0))
		x.receives(woken("c:2", vacant("0")))
	}},
	{"as many are woken as there are slots for", func(x *trial) {
		x.want(node.Granted, take(4, "o1", 0, 1, 2, 3))
		for i := range 5 {
			x.full(waiting(fmt.Sprint("c:", i+1), int64(i), take(4, "o", 0)), 4)
		}
		x.want(node.Released, give(4, "o1", 0, 1, 2, 3))
		x.receives(woken("c:1", vacant("0")), woken("c:2", vacant("1")), woken("c:3", vacant("2")),
			woken("c:4", vacant("3")), standby("c:5", vacant("")))
	}},
	{"a woken waiter is not told to take another slot", func(x *trial) {
		const patient, other = "c:1@500", "c:2@500" // so that the batch ends before their privileges
		for i := range 3 {
			x.want(node.Granted, take(3, fmt.Sprint("o", i), i))
		}
		x.full(waiting(patient, 1, take(3, "o3", 0)), 3)
		x.full(waiting(other, 2, take(3, "o4", 0)), 3)
		x.outcomes(x.do(give(3, "o2", 2), give(3, "o0", 0)), node.Released, node.Released)
		x.receives(woken(patient, vacant("2")), standby(other, vacant("")),
			woken(patient, vacant("")), woken(other, vacant("0")))
	}},
	{"a waiter for several slots is not overtaken", func(x *trial) {
		for i := range 3 {
			x.want(node.Granted, take(3, fmt.Sprint("o", i), i))
		}
		x.full(waiting("c:1*2", 1, take(3, "o4", 0, 1)), 3)
		x.full(waiting("c:2", 2, take(3, "o5", 0)), 3)
		x.want(node.Released, give(3, "o0", 0))
		x.receives()
		r := x.full(fair(waiting("c:2", 2, take(3, "o5", 0))), 3, 0)
		assert.Empty(x, r.Holder.Owner)
		x.full(fair(take(3, "o6", 0)), 3, 0)
		x.want(node.Released, give(3, "o2", 2))
		x.receives(woken("c:1*2", vacant("2,0")), standby("c:2", vacant("")))
		x.want(node.Granted, fair(waiting("c:1*2", 1, take(3, "o4", 0, 2))))
	}},
	{"a waiter that was granted slots does not block others", func(x *trial) {
		x.want(node.Granted, take(3, "o1", 0, 1, 2))
		x.full(waiting("c:1", 1, take(3, "o2", 0)), 3)
		x.want(node.Released, give(3, "o1", 0, 1, 2))
		x.want(node.Granted, fair(waiting("c:1", 1, take(3, "o2", 0))), fair(take(3, "o3", 1, 2)))
	}},
	{"a waiter that gives slots back has its place again", func(x *trial) {
		x.want(node.Granted, take(1, "o1", 0))
		x.full(waiting("c:1", 1, take(1, "o2", 0)), 1)
		x.full(waiting("c:2", 2, take(1, "o3", 0)), 1)
		x.want(node.Released, give(1, "o1", 0))
		x.want(node.Granted, fair(waiting("c:1", 1, take(1, "o2", 0))))
		x.receives(woken("c:1", vacant("0")), standby("c:2", vacant("")))
		x.want(node.Released, waiting("c:1", 1, give(1, "o2", 0)))
		x.receives(returned("c:2", vacant("0")))
		x.want(node.Granted, take(1, "o4", 0))
		r := x.full(waiting("c:2", 2, take(1, "o3", 0)), 1)
		assert.Equal(x, 1, r.Rank)
	}},
	{"a waiter that leaves passes its slot on", func(x *trial) {
		x.want(node.Granted, take(1, "o1", 0))
		for i := range 3 {
			x.full(waiting(fmt.Sprint("c:", i+1), int64(i), take(1, "o", 0)), 1)
		}
		x.want(node.Released, leavePool(1, "c:2"))
		x.want(node.Absent, leavePool(1, "c:2"))
		x.receives()
		x.want(node.Released, give(1, "o1", 0), leavePool(1, "c:1"))
		x.receives(woken("c:1", vacant("0")), standby("c:3", vacant("")), woken("c:3", vacant("0")))
	}},
	{"dead waiters are passed over", func(x *trial) {
		x.want(node.Granted, take(1, "o1", 0))
		for i := range 10 {
			x.full(waiting(fmt.Sprint("dead", i, ":1"), int64(i), take(1, "o", 0)), 1)
		}
		x.full(waiting("c:1", 100, take(1, "o", 0)), 1)
		x.want(node.Released, give(1, "o1", 0))
		x.receives(woken("c:1", vacant("0")))
		x.want(node.Granted, fair(take(2, "o2", 1)))
	}},
	{"a dead waiter that wants more slots than are free is passed over by a release", func(x *trial) {
		x.want(node.Granted, take(3, "o1", 0), take(3, "o2", 1, 2))
		x.full(waiting("dead:1*3", 1, take(3, "o3", 0, 1, 2)), 3)
		x.full(waiting("c:2", 2, take(3, "o4", 0)), 3)
		x.want(node.Released, give(3, "o1", 0))
		x.receives(woken("c:2", vacant("0")))
		x.want(node.Granted, fair(waiting("c:2", 2, take(3, "o4", 0))))
	}},
	{"and by the next attempt", func(x *trial) {
		x.want(node.Granted, take(3, "o1", 0, 1))
		x.full(waiting("dead:1*3", 1, take(3, "o2", 0, 1, 2)), 3, 2)
		x.want(node.Granted, fair(waiting("c:2", 2, take(3, "o3", 2))))
		x.receives()
	}},
	{"a waiter that wants more slots than there are blocks no other", func(x *trial) {
		x.want(node.Granted, take(3, "o1", 0, 1, 2))
		x.full(waiting("c:1*3", 1, take(3, "o2", 0, 1, 2)), 3)
		x.full(waiting("c:2", 2, take(3, "o3", 0)), 3)
		x.want(node.Granted, resize(2, 1))
		x.want(node.Released, give(3, "o1", 0, 1, 2))
		x.receives(woken("c:2", vacant("0")))
		x.want(node.Granted, fair(take(3, "o4", 1)), fair(waiting("c:2", 2, take(3, "o3", 0))))
	}},
	{"a pool that grows wakes", func(x *trial) {
		x.want(node.Granted, take(1, "o1", 0))
		x.full(waiting("c:1", 1, take(1, "o2", 0)), 1)
		x.want(node.Granted, resize(2, 1))
		x.receives(woken("c:1", vacant("1")))
	}},
	{"a newcomer takes slots that no earlier waiter needs", func(x *trial) {
		x.want(node.Granted, take(3, "o1", 0, 1, 2))
		const patient = "c:1@500" // so that the batch ends before its privilege
		x.full(waiting(patient, 1, take(3, "o2", 0)), 3)
		replies := x.do(
			give(3, "o1", 0, 1, 2),
			fair(take(3, "o3", 0, 1, 2)),
			fair(take(3, "o3", 1, 2)),
			fair(take(3, "o4", 0)),
			fair(waiting(patient, 1, take(3, "o2", 0))),
		)
		x.outcome(node.Released, replies[0])
		x.isFull(replies[1], 3, 0, 1, 2)
		x.outcome(node.Granted, replies[2])
		x.isFull(replies[3], 3, 0)
		x.outcome(node.Granted, replies[4])
	}},
}
