package nodetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// awaiting reads a latch and registers the client's inbox.
func awaiting(name, client string) node.Op {
	return latch(name, node.LatchOp{Inbox: client, Keep: middle})
}

func counted(client, name string) node.Message {
	return node.Message{Kind: node.Counted, Waiter: client, Name: name}
}

// latchMessages has the promises about clients that wait for a latch.
var latchMessages = []promise{
	{"a waiting client is told once when enough ids have counted down", func(x *trial) {
		b, other := x.listen("c1"), x.listen("c2")
		x.latched(node.Granted, x.setting("a", 2))
		for range 3 {
			x.latched(node.Granted, awaiting("a", "c1"))
		}
		x.latched(node.Granted, counting("a", "1"))
		b.receives()
		x.latched(node.Granted, counting("a", "1"))
		b.receives()
		x.latched(node.Granted, counting("a", "2"))
		b.receives(counted("c1", "a"))
		x.latched(node.Granted, counting("a", "3"))
		b.receives()
		other.receives()
	}},
	{"all waiting clients are told", func(x *trial) {
		for _, name := range odd {
			x.latched(node.Granted, x.setting(name, 1))
			boxes := []*box{x.listen("c1"), x.listen("c2"), x.listen("c3")}
			for _, b := range boxes {
				x.latched(node.Granted, awaiting(name, b.client))
			}
			x.latched(node.Granted, counting(name, "1"))
			for _, b := range boxes {
				b.receives(counted(b.client, name))
				require.NoError(x, b.Close())
			}
		}
	}},
	{"a client that comes when it is done is not told", func(x *trial) {
		b := x.listen("c1")
		x.latched(node.Granted, x.setting("a", 1), counting("a", "1"))
		assert.Equal(x, 1, x.latched(node.Granted, awaiting("a", "c1")).Size)
		x.latched(node.Granted, counting("a", "2"), unlatch("a"))
		b.receives()
	}},
	{"a waiting client is told of a deletion", func(x *trial) {
		b := x.listen("c1")
		for _, end := range []func(){
			func() { x.latched(node.Granted, unlatch("a")) },
			func() {
				later := x.token()
				x.latched(node.Granted, exactly(later, latch("a", node.LatchOp{Count: 2, Since: later})))
			},
		} {
			x.latched(node.Granted, x.setting("a", 2), awaiting("a", "c1"))
			end()
			b.receives(counted("c1", "a"))
		}
	}},
	{"and of state that is given back to the node", func(x *trial) {
		b := x.listen("c1")
		x.latched(node.Granted, x.setting("a", 2), awaiting("a", "c1"))
		x.latched(node.Granted, exactly(0, latch("a", node.LatchOp{Count: 2, Since: 1, IDs: []string{"1", "2"}})))
		b.receives(counted("c1", "a"))
	}},
	{"a client that leaves is not told, and the others are", func(x *trial) {
		left, stays := x.listen("c1"), x.listen("c2")
		x.latched(node.Granted, x.setting("a", 1), awaiting("a", "c1"), awaiting("a", "c2"))
		leave := awaiting("a", "c1")
		leave.Latch.Keep = 0
		for range 2 {
			x.latched(node.Granted, leave)
		}
		x.latched(node.Granted, counting("a", "1"))
		left.receives()
		stays.receives(counted("c2", "a"))
	}},
	{"a client past its deadline is not told", func(x *trial) {
		b := x.listen("c1")
		x.latched(node.Granted, x.setting("a", 2))
		wait := awaiting("a", "c1")
		wait.Latch.Keep = short
		x.latched(node.Granted, wait)
		x.Pass(short)
		x.latched(node.Granted, counting("a", "1", "2"))
		b.receives()
	}},
}
