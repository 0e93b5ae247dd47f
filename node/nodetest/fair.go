package nodetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

// privilege is how long a free name is left to a woken waiter.
const privilege = 50 * time.Millisecond

// fair makes an operation fair.
func fair(op node.Op) node.Op {
	op.Fair = true
	return op
}

// fairly is the fair attempt of a waiter.
func fairly(id string, ticket int64, names ...string) node.Op {
	return fair(waiting(id, ticket, acquire("o of "+id, long, names...)))
}

// promptly runs a batch on a name of its own, until it takes much less than a privilege on a real clock.
func (x *trial) promptly(batch func(name string) []node.Op) (name string, replies []node.Reply) {
	x.Helper()
	for i := range attempts {
		name = fmt.Sprint("prompt ", i)
		ops := batch(name)
		began := time.Now()
		replies = x.do(ops...)
		if time.Since(began) < privilege/2 {
			return name, replies
		}
	}
	x.Fatalf("no batch took less than %v, in %d attempts", privilege/2, attempts)
	return "", nil
}

// attempts bounds how often a test repeats a step that must be quick on a real clock.
const attempts = 500

// freed queues waiters for a name and then releases it, so that the first is woken.
func freed(name string, ids ...string) []node.Op {
	ops := []node.Op{acquire("o1", long, name)}
	for i, id := range ids {
		ops = append(ops, fairly(id, int64(i+1), name))
	}
	return append(ops, release("o1", name))
}

// yields requires the denial of a name that is left to another waiter.
func (x *trial) yields(name string, rank int, r node.Reply) {
	x.Helper()
	x.outcome(node.Denied, r)
	assert.Equal(x, rank, r.Rank)
	assert.Equal(x, name, r.Holder.Name)
	assert.Empty(x, r.Holder.Owner)
	assert.Positive(x, r.Holder.TTL)
	assert.LessOrEqual(x, r.Holder.TTL, privilege)
}

// awaitsFar runs a batch that wakes a waiter far from the node. It requires that the node leaves the free
// name to that waiter for distance, and then grants next. On a real clock it repeats this with a new name if
// the machine was too slow to ask in time.
func (x *trial) awaitsFar(distance time.Duration, batch func(name string) []node.Op, next func(name string) node.Op) {
	x.Helper()
	for i := range attempts {
		name := fmt.Sprint("far ", i)
		began := time.Now()
		x.do(batch(name)...)
		x.Pass(privilege)
		r := x.do(next(name))[0]
		if took := time.Since(began); took > distance-2*privilege {
			continue // the node may rightly have left less than a privilege
		}
		x.outcome(node.Denied, r)
		assert.Greater(x, r.Holder.TTL, privilege)
		assert.LessOrEqual(x, r.Holder.TTL, distance-privilege+time.Millisecond, "the node's clock, in whole milliseconds")
		x.Pass(distance - privilege)
		x.want(node.Granted, next(name))
		return
	}
	x.Fatalf("the node was never asked within %v, in %d attempts", distance-2*privilege, attempts)
}

func last(replies []node.Reply) node.Reply { return replies[len(replies)-1] }

var fairness = []promise{
	{"a name without waiters is granted", func(x *trial) {
		x.want(node.Granted, fairly("c:1", 1, "a", "b"))
		x.keys("a", "b")
		x.want(node.Absent, leave("c:1", "a", "b"))
	}},
	{"a held name is denied as in any acquisition", func(x *trial) {
		x.held("a")
		h := x.waits(0, fairly("c:1", 1, "a", "b"))
		assert.Equal(x, "o1", h.Owner)
		x.waits(1, fairly("c:2", 2, "a"))
	}},
	{"the first in line takes a free name", func(x *trial) {
		x.do(freed("a", "c:1", "c:2")...)
		x.want(node.Granted, fairly("c:1", 1, "a"))
		x.receives(woken("c:1", "a"), standby("c:2", "a"))
		x.waits(1, fairly("c:2", 2, "a"))
	}},
	{"a waiter that gives a name back to try again keeps its turn", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			ops := append(freed(name, "c:1", "c:2"), fairly("c:1", 1, name))
			return append(ops, waiting("c:1", 1, release("o of c:1", name)), fairly("c:2", 2, name))
		})
		x.yields(name, 1, last(replies))
		x.receivesOf(name, woken("c:1", name), standby("c:2", name), returned("c:2", name))
	}},
	{"a waiter that takes a name and gives it back repeatedly blocks others for its privilege only", func(x *trial) {
		x.held("a")
		x.waits(0, fairly("c:1", 1, "a"))
		x.waits(1, fairly("c:2", 2, "a"))
		x.want(node.Released, release("o1", "a"))
		for range 5 {
			x.want(node.Granted, fairly("c:1", 1, "a"))
			x.Pass(privilege / 5)
			x.want(node.Released, waiting("c:1", 1, release("o of c:1", "a")))
		}
		x.want(node.Granted, fairly("c:2", 2, "a"))
	}},
	{"nor does a waiter that was never woken", func(x *trial) {
		x.want(node.Granted, fairly("c:1", 1, "a"))
		x.want(node.Released, waiting("c:1", 1, release("o of c:1", "a")))
		x.Pass(privilege)
		x.want(node.Granted, fairly("c:2", 2, "a"))
	}},
	{"a waiter far from the node gets a longer privilege", func(x *trial) {
		x.awaitsFar(200*time.Millisecond, func(name string) []node.Op { return freed(name, "c:1@200", "c:2") },
			func(name string) node.Op { return fairly("c:2", 2, name) })
	}},
	{"but not longer than the maximum", func(x *trial) {
		x.do(freed("a", "c:1@99999", "c:2")...)
		x.Pass(500 * time.Millisecond)
		x.want(node.Granted, fairly("c:2", 2, "a"))
	}},
	{"others leave a free name to the first", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			return append(freed(name, "c:1", "c:2"), fairly("c:2", 2, name), fairly("c:3", 3, name))
		})
		x.yields(name, 1, replies[4])
		x.yields(name, 2, replies[5])
		x.receivesOf(name, woken("c:1", name), standby("c:2", name))
	}},
	{"an older ticket goes first, even if it came later", func(x *trial) {
		x.do(freed("a", "c:1", "c:2")...)
		x.want(node.Granted, fairly("c:0", 0, "a"))
	}},
	{"an unfair acquisition does not leave it", func(x *trial) {
		x.do(freed("a", "c:1")...)
		x.want(node.Granted, waiting("c:2", 2, acquire("o2", long, "a")))
	}},
	{"an acquisition without a waiter leaves it to all waiters", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			return append(freed(name, "c:1"), fair(acquire("o2", long, name)))
		})
		x.yields(name, 0, last(replies))
		x.want(node.Granted, fairly("c:1", 1, name))
		x.want(node.Released, releaseOf("c:1", "o of c:1", name))
		x.want(node.Granted, fair(acquire("o2", long, name)))
	}},
	{"a first waiter that was not woken is woken by the next attempt, once", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			taken := name + " taken"
			return []node.Op{
				acquire("o1", long, taken), fairly("c:1", 1, taken, name),
				fairly("c:2", 2, name), fairly("c:3", 3, name),
			}
		})
		x.yields(name, 1, replies[2])
		x.yields(name, 2, replies[3])
		x.receivesOf(name, woken("c:1", name))
	}},
	{"a first waiter that is woken and does not come loses its privilege, but not its place", func(x *trial) {
		x.do(freed("a", "c:1", "c:2")...)
		x.Pass(privilege)
		x.want(node.Granted, fairly("c:2", 2, "a"))
		x.want(node.Released, releaseOf("c:2", "o of c:2", "a"))
		x.receives(woken("c:1", "a"), standby("c:2", "a"), woken("c:1", "a"))
		x.held("a")
		x.waits(0, fairly("c:1", 1, "a"))
	}},
	{"woken waiters that do not come do not prevent others from being woken", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			x.do(freed(name, "c:1", "c:2", "c:3", "c:4")...)
			x.Pass(privilege)
			return []node.Op{
				fairly("c:2", 2, name), waiting("c:2", 2, release("o of c:2", name)), releaseOf("c:9", "nobody", name),
			}
		})
		x.answered(node.Granted, replies[0])
		x.answered(node.Released, replies[1])
		x.answered(node.Absent, replies[2])
		x.receivesOf(name, woken("c:1", name), standby("c:2", name),
			returned("c:1", name), returned("c:3", name),
			woken("c:1", name), woken("c:2", name), standby("c:3", name))
		x.Pass(privilege)
		x.want(node.Absent, releaseOf("c:9", "nobody", name))
		x.receivesOf(name, woken("c:1", name), woken("c:2", name), woken("c:3", name), standby("c:4", name))
	}},
	{"a second wake gives no second privilege", func(x *trial) {
		x.do(freed("a", "c:1", "c:2")...)
		x.Pass(privilege)
		x.want(node.Absent, release("o1", "a"))
		x.want(node.Granted, fairly("c:2", 2, "a"))
	}},
	{"a waiter that comes has its privilege again", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			x.do(freed(name, "c:1", "c:2")...)
			x.Pass(privilege)
			return []node.Op{acquire("o1", long, name), fairly("c:1", 1, name), release("o1", name), fairly("c:2", 2, name)}
		})
		x.yields(name, 1, last(replies))
	}},
	{"several waiters that do not come each have their turn", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			return append(freed(name, "c:1", "c:2"), fairly("c:3", 3, name))
		})
		x.yields(name, 2, last(replies))
		x.Pass(privilege)
		x.yields(name, 2, x.do(fairly("c:3", 3, name))[0])
		x.Pass(privilege)
		x.want(node.Granted, fairly("c:3", 3, name))
		x.receivesOf(name, woken("c:1", name), standby("c:2", name), woken("c:2", name))
	}},
	{"dead waiters have no privilege", func(x *trial) {
		x.held("a")
		x.do(fairly("dead:1", 1, "a", "b"), fairly("dead:2", 2, "a", "b"), fairly("c:1", 3, "a", "b"))
		x.want(node.Granted, fairly("c:1", 3, "b"))
		x.want(node.Absent, leave("dead:1", "b"))
		x.want(node.Released, leave("dead:1", "a"))
		x.receives()
	}},
	{"however many dead waiters there are", func(x *trial) {
		const dead = 500
		x.held("a")
		var ops []node.Op
		for i := range dead {
			ops = append(ops, fairly(fmt.Sprint("dead", i%7, ":", i), int64(i), "a", "b"))
		}
		x.do(ops...)
		x.want(node.Granted, fairly("c:1", dead, "b"))
	}},
	{"nor do waiters past their deadline", func(x *trial) {
		x.held("a")
		x.do(fair(waitingFor(short, "c:1", 1, acquire("o2", long, "a", "b"))))
		x.Pass(short)
		x.want(node.Granted, fairly("c:2", 2, "b"))
	}},
	{"also for an acquisition that does not wait", func(x *trial) {
		x.held("a")
		x.do(fair(waitingFor(short, "c:1", 1, acquire("o2", long, "a", "b"))))
		x.do(fairly("dead:1", 2, "a", "b")) // the queue lives on
		x.Pass(short)
		x.want(node.Granted, fair(acquire("o3", long, "b")))
		x.receives()
	}},
	{"a name that the owner holds is granted again past the waiters", func(x *trial) {
		x.want(node.Granted, fairly("c:2", 2, "a"))
		x.waits(0, fairly("c:1", 1, "a"))
		x.want(node.Granted, fairly("c:2", 2, "a"))
		x.waits(0, fairly("c:1", 1, "a"))
		x.want(node.Granted, fair(acquire("o of c:2", long, "a")))
	}},
	{"one free name that is left to another denies all", func(x *trial) {
		x.held("x")
		x.want(node.Granted, acquire("o2", long, "own"))
		x.waits(0, fairly("c:1", 1, "x", "b"))
		replies := x.do(fairly("c:2", 2, "a", "b", "d"))
		x.yields("b", 1, replies[0])
		x.receives(woken("c:1", "b"))
		x.keys("own", "x")
		x.want(node.Released, leave("c:1", "b", "x"))
		x.receives(woken("c:2", "b"))
		for _, name := range []string{"a", "d"} {
			x.want(node.Absent, release("o3", name))
			x.receives(woken("c:2", name))
		}
		x.want(node.Granted, fairly("c:2", 2, "a", "b", "d"))
		x.want(node.Released, leave("c:2", "a", "b", "d"))
	}},
	{"a waiter for several names keeps a free one unused for its privilege only", func(x *trial) {
		x.held("y")
		x.waits(0, fairly("c:1", 1, "a", "y"))
		x.want(node.Absent, release("o1", "a"))
		for range 5 {
			x.Pass(privilege / 5)
			h := x.waits(0, fairly("c:1", 1, "a", "y"))
			assert.Equal(x, "o1", h.Owner)
			x.waits(0, fairly("c:1", 1, "y", "a"))
			x.waits(0, waiting("c:1", 1, acquire("o of c:1", long, "a", "y")))
		}
		for range 3 {
			x.want(node.Granted, fairly("c:2", 2, "a"))
			x.want(node.Released, releaseOf("c:2", "o of c:2", "a"))
			x.waits(0, fairly("c:1", 1, "a", "y"))
		}
		x.receives(woken("c:1", "a"), woken("c:1", "a"), woken("c:1", "a"), woken("c:1", "a"))
		x.want(node.Released, release("o1", "y"))
		x.want(node.Granted, fairly("c:1", 1, "a", "y"))
		x.want(node.Released, leave("c:1", "a", "y"))
	}},
	{"but it has its privilege", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			x.do(acquire("o1", long, name+" too"), fairly("c:1", 1, name, name+" too"))
			return []node.Op{
				release("o2", name), fairly("c:1", 1, name, name+" too"), fairly("c:2", 2, name),
				release("o1", name+" too"), fairly("c:2", 2, name+" too"),
			}
		})
		x.yields(name, 1, replies[2])
		x.yields(name+" too", 1, replies[4])
		x.want(node.Granted, fairly("c:1", 1, name, name+" too"))
	}},
	{"a waiter that comes while a name is held has its privilege there again, even if other names are free", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			x.do(acquire("o1", long, name+" too"), fairly("c:1", 1, name, name+" too"), release("o1", name))
			x.Pass(privilege)
			return []node.Op{
				acquire("o2", long, name), fairly("c:1", 1, name, name+" too"), release("o2", name), fairly("c:2", 2, name),
			}
		})
		x.yields(name, 1, last(replies))
	}},
	{"a waiter that leaves one name to another blocks the rest no longer either", func(x *trial) {
		x.held("y")
		x.waits(0, fairly("c:1", 1, "y", "b"))
		x.waits(1, fairly("c:2", 2, "a", "b", "y"))
		x.want(node.Absent, release("o2", "a"))
		x.Pass(privilege)
		x.want(node.Released, leave("c:2", "y"))
		x.yields("b", 1, x.do(fairly("c:2", 2, "a", "b"))[0])
		x.want(node.Granted, fairly("c:3", 3, "a"))
	}},
	{"a waiter that comes in another's turn has its own afterwards", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			x.do(freed(name, "c:1", "c:2", "c:3")...)
			x.Pass(privilege)
			x.do(fairly("c:3", 3, name))
			x.Pass(privilege)
			x.do(acquire("o1", long, name), fairly("c:1", 1, name), release("o1", name), fairly("c:2", 2, name))
			x.Pass(privilege)
			return []node.Op{fairly("c:3", 3, name)}
		})
		x.yields(name, 2, last(replies))
	}},
	{"a denial tells the name that is left to another for the longest time", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			x.do(
				acquire("o1", long, name+" taken"), fairly("c:1", 1, name+" taken", name),
				fairly("c:2", 2, name+" taken", name+" too"), fairly("c:3", 3, name),
			)
			x.Pass(privilege / 5)
			return []node.Op{fairly("c:4", 4, name+" too", name)}
		})
		x.yields(name+" too", 1, replies[0])
	}},
	{"the denial tells the fence", func(x *trial) {
		token := x.token()
		name, replies := x.promptly(func(name string) []node.Op {
			ops := append(freed(name, "c:1"), fairly("c:2", 2, name))
			ops[0].Token = token
			return ops
		})
		x.yields(name, 1, last(replies))
		assert.Equal(x, token, last(replies).Holder.Token)
	}},
}
