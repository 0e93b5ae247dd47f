package nodetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// readQueues has the promises about waiting readers, and about waiters for a name with readers.
var readQueues = []promise{
	{"when a writer goes, all readers that wait before the next are woken", func(x *trial) {
		x.held("a")
		for i, id := range []string{"c:1", "c:2", "c:3"} {
			x.waits(i, readsFor(id, int64(i+1), "a"))
		}
		x.waits(3, fairly("c:w", 4, "a"))
		x.waits(4, readsFor("c:5", 5, "a"))
		x.want(node.Released, release("o1", "a"))
		x.receives(woken(reads("c:1"), "a"), woken(reads("c:2"), "a"), woken(reads("c:3"), "a"), standby("c:w", "a"))
		for i, id := range []string{"c:2", "c:1", "c:3"} {
			x.gets(readsFor(id, int64(i+1), "a"))
		}
		x.waits(0, fairly("c:w", 4, "a"))
		x.readers("a", "o of c:1", "o of c:2", "o of c:3")
	}},
	{"a reader that gets a name leaves the queue, and gets in again with its ticket", func(x *trial) {
		x.held("a")
		x.waits(0, readsFor("c:1", 1, "a"))
		x.waits(1, fairly("c:2", 2, "a"))
		x.want(node.Released, release("o1", "a"))
		x.gets(readsFor("c:1", 1, "a"))
		x.waits(0, fairly("c:2", 2, "a"))
		x.want(node.Released, reading(waiting(reads("c:1"), 1, release("o of c:1", "a"))))
		x.held("a")
		x.waits(2, fairly("c:3", 3, "a"))
		x.want(node.Released, release("o1", "a"))
		x.gets(readsFor("c:1", 1, "a"))
		x.waits(1, fairly("c:3", 3, "a"))
	}},
	{"a waiting writer keeps new readers out, but not present ones", func(x *trial) {
		x.gets(read("r1", long, "a"), read("r2", long, "a"))
		x.waits(0, fairly("c:w", 1, "a"))
		h := x.waits(1, readsFor("c:1", 2, "a"))
		assert.Equal(x, node.Readers, h.Owner)
		assert.Greater(x, h.TTL, long-slack)
		x.want(node.Denied, fair(read("r3", long, "a")))
		x.want(node.Granted, keep("r1", long, "a"))
		x.gets(fair(read("r1", long, "a")))
		x.want(node.Released, unread("r1", "a"))
		x.receives()
		x.want(node.Released, unread("r2", "a"))
		x.receives(woken("c:w", "a"), standby(reads("c:1"), "a"))
		x.want(node.Granted, fairly("c:w", 1, "a"))
		x.want(node.Released, releaseOf("c:w", "o of c:w", "a"))
		x.receives(woken(reads("c:1"), "a"))
	}},
	{"a reader that came before the writer reads with the others", func(x *trial) {
		x.gets(read("r1", long, "a"))
		x.waits(0, fairly("c:w", 2, "a"))
		x.gets(readsFor("c:1", 1, "a"))
		x.readers("a", "r1", "o of c:1")
	}},
	{"an unfair reader ignores waiting writers", func(x *trial) {
		x.gets(read("r1", long, "a"))
		x.waits(0, fairly("c:w", 1, "a"))
		x.gets(read("r2", long, "a"))
	}},
	{"a reader that does not wait ignores writers past their deadline", func(x *trial) {
		x.gets(read("r1", long, "a"))
		x.do(fair(waitingFor(short, "c:w", 1, acquire("o2", long, "a"))))
		x.do(readsFor("c:1", 2, "a"))
		x.Pass(short)
		x.gets(fair(read("r3", long, "a")))
	}},
	{"when the writer gives up, readers behind it read", func(x *trial) {
		x.gets(read("r1", long, "a"))
		x.waits(0, fairly("c:w", 1, "a"))
		x.waits(1, readsFor("c:1", 2, "a"))
		x.waits(2, readsFor("c:2", 3, "a"))
		x.want(node.Released, leave("c:w", "a"))
		x.receives(woken(reads("c:1"), "a"), woken(reads("c:2"), "a"))
		x.gets(readsFor("c:1", 2, "a"), readsFor("c:2", 3, "a"))
		x.receives()
	}},
	{"a reader that comes wakes readers behind it, but no writer", func(x *trial) {
		x.held("a")
		x.waits(0, readsFor("c:1", 1, "a"))
		x.waits(1, readsFor("c:2", 2, "a"))
		x.waits(2, fairly("c:w", 3, "a"))
		x.want(node.Released, shortenTo(short, "a"))
		x.Pass(short)
		x.gets(readsFor("c:1", 1, "a"))
		x.receives(woken(reads("c:2"), "a"))
		x.gets(readsFor("c:2", 2, "a"))
		x.receives()
	}},
	{"however many readers there are", func(x *trial) {
		const crowd = 250
		x.held("a")
		ops := make([]node.Op, 0, crowd)
		for i := range crowd {
			ops = append(ops, readsFor(fmt.Sprint("c:", i), int64(i+1), "a"))
		}
		x.do(ops...)
		x.want(node.Released, release("o1", "a"))
		told := make(map[string]bool)
		for len(told) < crowd { // a reader that is not in before its patience ends may be told again
			m := x.inbox.next()
			assert.Equal(x, node.Woken, m.Kind)
			var n int
			_, err := fmt.Sscanf(node.WaiterKey(m.Waiter), "c:%d", &n)
			require.NoError(x, err)
			if !told[m.Waiter] {
				told[m.Waiter] = true
				x.gets(ops[n])
			}
		}
	}},
	{"however many readers before them are past their deadlines", func(x *trial) {
		x.held("a")
		for i := range 100 {
			op := readsFor(fmt.Sprint("c:", i), int64(i), "a")
			op.Waiter.Keep = short
			x.do(op)
		}
		x.do(readsFor("c:last", 100, "a"))
		x.want(node.Released, release("o1", "a"))
		x.Pass(short)
		x.gets(fair(read("r", long, "a")))
		for x.inbox.next().Waiter != reads("c:last") {
		}
	}},
	{"a writer is not woken while others read", func(x *trial) {
		x.gets(read("r1", long, "a"), read("r2", long, "a"))
		x.waits(0, fairly("c:w", 1, "a"))
		x.want(node.Released, unread("r1", "a"))
		x.want(node.Absent, release("o9", "a"), leave("c:9", "a"))
		x.receives()
	}},
	{"on a free name a reader leaves the turn to a writer that came before, and wakes it", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			taken := name + " taken"
			return []node.Op{
				acquire("o1", long, taken), fairly("c:w", 1, taken, name),
				readsFor("c:1", 2, name), readsFor("c:2", 3, name),
			}
		})
		x.yields(name, 1, replies[2])
		x.yields(name, 2, replies[3])
		x.receivesOf(name, woken("c:w", name))
	}},
	{"and a writer that does not come blocks it no longer than other waiters", func(x *trial) {
		x.do(freed("a", "c:w")...)
		x.Pass(privilege)
		x.gets(readsFor("c:1", 2, "a"), fair(read("r", long, "a")))
		x.waits(0, fairly("c:w", 1, "a"))
		x.waits(1, readsFor("c:2", 3, "a"))
	}},
	{"several writers that do not come each have their turn before a reader", func(x *trial) {
		name, replies := x.promptly(func(name string) []node.Op {
			return append(freed(name, "c:w1", "c:w2"), readsFor("c:1", 3, name))
		})
		x.yields(name, 2, last(replies))
		x.Pass(privilege)
		x.yields(name, 2, x.do(readsFor("c:1", 3, name))[0])
		x.Pass(privilege)
		x.gets(readsFor("c:1", 3, name))
		x.receivesOf(name, woken("c:w1", name), standby("c:w2", name), woken("c:w2", name))
	}},
	{"but a writer is not woken before its turn, while a reader waits before it", func(x *trial) {
		id := node.ReaderID("c:1", privilege)
		name, replies := x.promptly(func(name string) []node.Op {
			first := fair(waiting(id, 1, read("r1", long, name)))
			return []node.Op{acquire("o1", long, name), first, fairly("c:w", 2, name), release("o1", name), readsFor("c:2", 3, name)}
		})
		x.yields(name, 2, last(replies))
		x.receivesOf(name, woken(id, name), standby("c:w", name))
	}},
	{"a dead reader before a writer does not keep a later reader out", func(x *trial) {
		x.held("a")
		x.do(readsFor("dead:1", 1, "a"))
		x.waits(1, fairly("c:w", 2, "a"))
		x.waits(2, readsFor("c:2", 3, "a"))
		x.want(node.Released, shortenTo(short, "a"))
		x.Pass(short)
		x.do(readsFor("c:2", 3, "a"))
		x.receives(woken("c:w", "a"))
		x.Pass(privilege)
		x.gets(readsFor("c:2", 3, "a"))
	}},
	{"nor does one that is woken and does not come", func(x *trial) {
		x.held("a")
		x.waits(0, readsFor("c:1", 1, "a"))
		x.waits(1, fairly("c:w", 2, "a"))
		x.waits(2, readsFor("c:2", 3, "a"))
		x.want(node.Released, shortenTo(short, "a"))
		x.Pass(short)
		x.do(readsFor("c:2", 3, "a"))
		x.receives(woken(reads("c:1"), "a"))
		x.Pass(calm)
		x.do(readsFor("c:2", 3, "a"))
		x.receives(woken("c:w", "a"))
		x.Pass(privilege)
		x.gets(readsFor("c:2", 3, "a"))
	}},
	{"woken readers that do not come block a writer for their turn only", func(x *trial) {
		x.held("a")
		x.waits(0, readsFor("c:1", 1, "a"))
		x.waits(1, readsFor("c:2", 2, "a"))
		x.waits(2, fairly("c:w", 3, "a"))
		x.want(node.Released, release("o1", "a"))
		x.Pass(calm)
		x.want(node.Granted, fairly("c:w", 3, "a"))
	}},
	{"dead writers do not block a free name", func(x *trial) {
		x.held("a")
		x.do(fairly("dead:1", 1, "a", "b"), fairly("dead:2", 2, "a", "b"))
		x.gets(readsFor("c:1", 3, "b"))
	}},
	{"a writer that becomes a reader leaves the queue, and readers behind it read", func(x *trial) {
		x.held("a")
		x.waits(0, fairly("c:w", 1, "a"))
		x.want(node.Released, release("o1", "a"))
		x.receives(woken("c:w", "a"))
		x.want(node.Granted, fairly("c:w", 1, "a"))
		x.waits(1, readsFor("c:1", 2, "a"))
		op := keep("o of c:w", long, "a")
		op.Waiter = node.Waiter{ID: "c:w"}
		x.want(node.Granted, op)
		x.receives(woken(reads("c:1"), "a"))
		x.gets(readsFor("c:1", 2, "a"))
		x.waits(0, fairly("c:w2", 3, "a"))
	}},
	{"and where it does not hold the name", func(x *trial) {
		x.held("a")
		x.waits(0, fairly("c:w", 1, "a"))
		x.want(node.Released, shortenTo(short, "a"))
		x.Pass(short)
		op := keep("o of c:w", long, "a")
		op.Waiter = node.Waiter{ID: "c:w"}
		x.want(node.Healed, op)
		x.gets(readsFor("c:1", 2, "a"))
	}},
	{"a reader that gives a partial grant back does not wake the others", func(x *trial) {
		x.held("a")
		x.waits(0, readsFor("c:1", 1, "a"))
		x.waits(1, readsFor("c:2", 2, "a"))
		x.want(node.Released, release("o1", "a"))
		x.receives(woken(reads("c:1"), "a"), woken(reads("c:2"), "a"))
		x.gets(readsFor("c:1", 1, "a"))
		x.want(node.Released, reading(waiting(reads("c:1"), 1, release("o of c:1", "a"))))
		x.receives(returned(reads("c:2"), "a"))
	}},
	{"a reader may be far from the node too", func(x *trial) {
		const distance = 200 * time.Millisecond
		id := node.ReaderID("c:1", distance)
		x.awaitsFar(distance, func(name string) []node.Op {
			return []node.Op{
				acquire("o1", long, name), fair(waiting(id, 1, read("r1", long, name))), fairly("c:w", 2, name), release("o1", name),
			}
		}, func(name string) node.Op { return fairly("c:w", 2, name) })
	}},
}
