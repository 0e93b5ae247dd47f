package nodetest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

// waitingFor makes the operation one for a waiter whose entry lives for keep.
func waitingFor(keep time.Duration, id string, ticket int64, op node.Op) node.Op {
	op.Waiter = node.Waiter{ID: id, Ticket: ticket, Keep: keep}
	return op
}

// waiting makes the operation one for a waiter.
func waiting(id string, ticket int64, op node.Op) node.Op {
	return waitingFor(long, id, ticket, op)
}

func leave(id string, names ...string) node.Op {
	return waitingFor(0, id, 0, node.Op{Kind: node.Leave, Names: names})
}

// releaseOf releases names that were acquired for a waiter, which then no longer waits.
func releaseOf(id, owner string, names ...string) node.Op {
	return waitingFor(0, id, 0, release(owner, names...))
}

// held lets o1 hold names.
func (x *trial) held(names ...string) {
	x.Helper()
	x.want(node.Granted, acquire("o1", long, names...))
}

// waits runs the attempt of a waiter, and requires that it is denied with a rank.
func (x *trial) waits(rank int, op node.Op) node.Holder {
	x.Helper()
	r := x.want(node.Denied, op)
	assert.Equal(x, rank, r.Rank, "rank of %s", op.Waiter.ID)
	return r.Holder
}

// queues lets a waiter wait for names, of which o1 holds at least one.
func (x *trial) queues(id string, ticket int64, rank int, names ...string) {
	x.Helper()
	x.waits(rank, waiting(id, ticket, acquire("o of "+id, long, names...)))
}

// line lets o1 hold a name and others wait for it, with tickets in the order of their ids.
func (x *trial) line(name string, ids ...string) {
	x.Helper()
	x.held(name)
	for i, id := range ids {
		x.queues(id, int64(i+1), i, name)
	}
}

// noWaiters requires that a queue is empty: it enters a waiter at the end and removes it.
func (x *trial) noWaiters(names ...string) {
	x.Helper()
	for _, name := range names {
		x.do(acquire("nobody", long, name))
		x.queues("nobody", 1<<52, 0, name)
		x.want(node.Released, leave("nobody", name))
		x.do(release("nobody", name))
	}
}

// queueing has the promises about waiters and their order.
var queueing = []promise{
	{"turns are in the order of tickets", func(x *trial) {
		x.held("a")
		x.queues("c:c", 1_700_000_000_000_003, 0, "a")
		x.queues("c:a", 1_700_000_000_000_001, 0, "a")
		x.queues("c:b", 1_700_000_000_000_002, 1, "a")
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:a", "a"), standby("c:b", "a"))
		x.want(node.Released, leave("c:a", "a"))
		x.receives(woken("c:b", "a"), standby("c:c", "a"))
		x.want(node.Released, leave("c:b", "a"))
		x.receives(woken("c:c", "a"))
		x.want(node.Released, leave("c:c", "a"))
		x.receives()
	}},
	{"where tickets are the same, in the order of ids", func(x *trial) {
		x.held("a")
		for i, id := range []string{"c:2", "c:1", "c:10", "c:\x00", "c:\xff"} {
			x.queues(id, 5, []int{0, 0, 1, 0, 4}[i], "a")
		}
		for i, id := range []string{"c:\x00", "c:1", "c:10", "c:2", "c:\xff"} {
			x.queues(id, 5, i, "a")
		}
	}},
	{"an entry keeps its ticket", func(x *trial) {
		x.line("a", "c:1", "c:2")
		x.queues("c:1", 3, 0, "a")
		x.queues("c:2", 0, 1, "a")
	}},
	{"an entry ends at its deadline", func(x *trial) {
		x.held("a")
		x.do(waitingFor(short, "c:1", 1, acquire("o2", long, "a")))
		x.do(waiting("c:3", 3, acquire("o2", long, "a")))
		x.Pass(short)
		x.queues("c:2", 2, 0, "a")
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:2", "a"), standby("c:3", "a"))
	}},
	{"an attempt extends the deadline, and never shortens it", func(x *trial) {
		x.held("a")
		x.do(waitingFor(short, "c:1", 1, acquire("o2", long, "a")))
		x.do(waiting("c:1", 1, acquire("o2", long, "a")))
		x.do(waitingFor(short, "c:1", 1, acquire("o2", long, "a")))
		x.Pass(short)
		x.queues("c:2", 2, 1, "a")
	}},
	{"a waiter that takes the lock keeps its place until the release", func(x *trial) {
		x.held("a", "b")
		x.queues("c:1", 1, 0, "a", "b", "d")
		x.queues("c:2", 2, 1, "a", "b", "d")
		x.want(node.Released, release("o1", "a", "b"))
		x.receives(woken("c:1", "a"), standby("c:2", "a"), woken("c:1", "b"), standby("c:2", "b"))
		x.want(node.Granted, waiting("c:1", 1, acquire("o2", long, "a", "b", "d")))
		for _, name := range []string{"a", "b", "d"} {
			x.queues("c:2", 2, 1, name)
		}
		x.want(node.Released, releaseOf("c:1", "o2", "a", "b", "d"))
		x.receives(woken("c:2", "a"), woken("c:2", "b"), woken("c:2", "d"))
		x.want(node.Absent, leave("c:1", "a", "b", "d"))
	}},
	{"a final release leaves the queue also of names that were not held", func(x *trial) {
		x.held("a")
		x.queues("c:1", 1, 0, "a", "b")
		x.queues("c:2", 2, 1, "a", "b")
		x.want(node.Absent, releaseOf("c:1", "o2", "a", "b"))
		x.receives(woken("c:2", "b"))
		x.want(node.Absent, leave("c:1", "a", "b"))
	}},
	{"an undo puts the waiter into all queues, also where it was not yet", func(x *trial) {
		x.want(node.Granted, waiting("c:1", 1, acquire("o2", long, "a")))
		x.want(node.Released, waiting("c:1", 1, release("o2", "a")))
		x.want(node.Absent, waiting("c:2", 2, release("o3", "a")))
		x.receives(returned("c:1", "a"))
		x.held("a")
		x.queues("c:3", 3, 2, "a")
		x.do(waitingFor(short, "c:0", 0, release("o4", "a"))) // its place ends with its deadline
		x.Pass(short)
		x.queues("c:3", 3, 2, "a")
		x.want(node.Released, leave("c:1", "a"))
	}},
	{"an unfair acquisition takes a free name past the waiters", func(x *trial) {
		x.line("a", "c:1")
		x.want(node.Released, release("o1", "a"))
		x.want(node.Granted, acquire("o2", long, "a"))
		x.want(node.Released, release("o2", "a"))
		x.want(node.Granted, waiting("c:9", 9, acquire("o2", long, "a")))
		x.receives(woken("c:1", "a"), woken("c:1", "a"))
	}},
	{"an acquisition without a waiter makes no entry", func(x *trial) {
		x.held("a")
		x.denied(acquire("o2", long, "a"), "a", "o1")
		op := acquire("o2", long, "a")
		op.Fair = true
		x.denied(op, "a", "o1")
		x.noWaiters("a")
	}},
	{"a waiter of several names stands in all queues, and its rank is told of the name that denied", func(x *trial) {
		x.line("b", "c:1", "c:2")
		x.queues("c:3", 3, 2, "d", "b", "a")
		for _, name := range []string{"a", "d"} {
			x.want(node.Granted, acquire("o2", long, name))
			x.queues("c:4", 4, 1, name)
			x.want(node.Released, release("o2", name))
			x.receives(woken("c:3", name), standby("c:4", name))
		}
	}},
	{"names have queues of their own", func(x *trial) {
		for _, name := range alike {
			x.held(name)
			x.queues("c:1", 1, 0, name)
			x.queues("c:2", 2, 1, name)
		}
	}},
	{"a waiter that has left may come again", func(x *trial) {
		x.line("a", "c:1", "c:2")
		x.want(node.Released, leave("c:1", "a"))
		x.queues("c:1", 3, 1, "a")
	}},
	{"a refusal makes no entry", func(x *trial) {
		x.held("a")
		ahead := x.now() + micros(limits.MaxClockSkew+long)
		x.fails(node.ErrClock, proposing(ahead, waiting("c:1", 1, acquire("o2", long, "a"))))
		x.fails(node.ErrSettings, waiting("c:1", 1, acquire("o2", limits.MaxTTL+time.Second, "a")))
		other := limits
		other.MaxTTL *= 2
		x.fails(node.ErrSettings, under(other, waiting("c:1", 1, acquire("o2", long, "a"))))
		x.noWaiters("a")
		x.Restart()
		x.fails(node.ErrRecovering, waiting("c:1", 1, acquire("o2", long, "a")))
		x.open(limits)
		x.noWaiters("a")
	}},
	{"waiters are forgotten with everything else", func(x *trial) {
		x.line("a", "c:1")
		x.Forget()
		x.open(limits)
		x.noWaiters("a")
	}},
	{"waiters survive a restart", func(x *trial) {
		x.line("a", "c:1", "c:2")
		x.Restart()
		x.open(limits)
		x.queues("c:3", 3, 2, "a")
	}},
	{"a duplicate changes nothing", func(x *trial) {
		x.held("a")
		op := waiting("c:1", 1, acquire("o2", long, "a"))
		for _, r := range x.do(op, op, op) {
			x.outcome(node.Denied, r)
			assert.Zero(x, r.Rank)
		}
		x.queues("c:2", 2, 1, "a")
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:1", "a"), standby("c:2", "a"))
		x.want(node.Granted, op)
		again := x.do(op)[0]
		assert.Equal(x, node.Granted, again.Outcome)
		x.queues("c:2", 2, 1, "a")
		back := releaseOf("c:1", "o2", "a")
		x.do(back, back)
		x.held("a")
		x.queues("c:2", 2, 0, "a")
	}},
}
