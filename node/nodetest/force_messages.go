package nodetest

import (
	"github.com/quorumlock/quorumlock/node"
)

func forced(owner, name string) node.Message {
	return node.Message{Kind: node.Forced, Waiter: owner, Name: name}
}

var forcedMessages = []promise{
	{"the client of a holder is told once, of the first name", func(x *trial) {
		x.want(node.Granted, acquire("c:1 host/7 a text", long, "a", "b"))
		x.want(node.Released, force(long, "a", "b"))
		x.inbox.receives(forced("c:1 host/7 a text", "a"))
	}},
	{"so is the client of each reader", func(x *trial) {
		other := x.listen("d")
		x.gets(read("c:1", long, "a"))
		x.gets(read("c:2", middle, "a"))
		x.gets(read("d:1", brief, "a"))
		x.want(node.Released, force(long, "a"))
		x.inbox.receives(forced("c:2", "a"), forced("c:1", "a"))
		other.receives(forced("d:1", "a"))
	}},
	{"so is an owner that only other nodes know, and one that lost nothing", func(x *trial) {
		x.want(node.Absent, burying(force(long, "a"), "c:1", "c:2", "c:1"))
		x.want(node.Granted, acquire("c:3", long, "a"))
		x.want(node.Absent, from("c:4", force(long, "a")))
		x.want(node.Released, from("c:3", force(long, "a")))
		x.inbox.receives(forced("c:1", "a"), forced("c:2", "a"), forced("c:4", "a"), forced("c:3", "a"))
	}},
	{"so is the holder of a slot", func(x *trial) {
		x.want(node.Granted, take(4, "c:1", 0))
		name := take(4, "c:1", 0).Names[0]
		x.want(node.Released, force(long, name))
		x.inbox.receives(forced("c:1", name))
	}},
	{"the holder is told before the waiter is woken", func(x *trial) {
		x.want(node.Granted, acquire("c:1", long, "a"))
		x.want(node.Denied, waiting("c:w1", 1, acquire("c:2", long, "a")))
		x.want(node.Released, force(long, "a"))
		for i, m := range x.inbox.received() {
			if want := []node.MessageKind{node.Forced, node.Woken}; i >= len(want) || m.Kind != want[i] {
				x.Errorf("message %d is %+v", i, m)
			}
		}
	}},
	{"a client without an inbox costs nothing", func(x *trial) {
		x.want(node.Granted, acquire("nobody:1", long, "a"), acquire("no colon", long, "b"))
		x.want(node.Released, force(long, "a", "b"))
		x.inbox.receives()
	}},
}
