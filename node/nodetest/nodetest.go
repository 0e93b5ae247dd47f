// Package nodetest is the conformance suite of node.Node: the promises on which the coordinator relies, with
// one subtest for each. Every implementation in this module passes it. Run it against your own:
//
//	func TestMine(t *testing.T) {
//		nodetest.Run(t, func(t *testing.T) nodetest.Subject {
//			n := mine.Open(t)
//			t.Cleanup(func() { _ = n.Close() })
//			return nodetest.Subject{Node: n, Pass: ..., Plant: ..., Keys: ..., Forget: ..., Restart: ...}
//		})
//	}
package nodetest

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Subject is a node under test, with the means to act on its deployment from outside. All fields except
// Second are required.
type Subject struct {
	// Node is a handle on an empty deployment without a marker. The suite may close it. If it is a
	// node.Listener, those from Second must be too; otherwise waiting is not tested.
	Node node.Node
	// Pass returns once at least d has passed on the deployment's own clock.
	Pass func(d time.Duration)
	// Plant puts a key that is not a lock, without a TTL.
	Plant func(key string)
	// Keys lists the names that are held now, sorted. It leaves out the marker, fences, tombstones and
	// planted keys.
	Keys func() []string
	// Forget makes the deployment lose everything, its marker too, and keep its identity, as FLUSHALL does.
	Forget func()
	// Restart brings the deployment back with all its data and another identity, like a restart from disk or
	// a failover. Handles may lose their connections, but work again when it returns.
	Restart func()
	// Second opens another handle on the same deployment, and closes it when the test ends. It is nil if
	// there can be only one.
	Second func() node.Node
}

// Run runs every subtest on a Subject of its own. It calls open once for each, with the subtest's t.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	for _, group := range []struct {
		name     string
		promises []promise
		// fresh says that the subtests begin with a new node; otherwise the node gives rights.
		fresh bool
		// waits says that the subtests need a node.Listener; they are skipped for other nodes. client is a client whose
		// inbox is open, if the subtests need just one.
		waits  bool
		client string
	}{
		{name: "acquire", promises: acquiring},
		{name: "renew", promises: renewing},
		{name: "release", promises: releasing},
		{name: "shorten", promises: shortening},
		{name: "inspect", promises: inspecting},
		{name: "force-release", promises: forcing},
		{name: "force-release messages", promises: forcedMessages, waits: true, client: "c"},
		{name: "wrong type", promises: wrongType},
		{name: "batch", promises: batching},
		{name: "names", promises: naming},
		{name: "life", promises: living},
		{name: "recovery", promises: recovery, fresh: true},
		{name: "limits", promises: limiting, fresh: true},
		{name: "marker", promises: marking, fresh: true},
		{name: "fence", promises: fencing},
		{name: "fence times", promises: fenceTimes},
		{name: "fence blocks", promises: fenceBlocks},
		{name: "queue", promises: queueing, waits: true, client: "c"},
		{name: "queue wakes", promises: queueWakes, waits: true, client: "c"},
		{name: "fair", promises: fairness, waits: true, client: "c"},
		{name: "inbox", promises: listening, waits: true},
		{name: "pool", promises: pooling},
		{name: "pool queue", promises: pooledWaits, waits: true, client: "c"},
		{name: "read", promises: readAndWrite},
		{name: "read fence", promises: readFences},
		{name: "read queue", promises: readQueues, waits: true, client: "c"},
		{name: "follow", promises: followed, waits: true},
		{name: "latch", promises: latching},
		{name: "latch messages", promises: latchMessages, waits: true},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, p := range group.promises {
				t.Run(p.name, func(t *testing.T) {
					x := &trial{T: t, Subject: open(t), limits: limits}
					if _, ok := x.Node.(node.Listener); group.waits && !ok {
						t.Skip("this node has no waiters")
					}
					if !group.fresh {
						x.open(limits)
					}
					if group.client != "" {
						x.inbox = x.listen(group.client)
					}
					p.kept(x)
				})
			}
		})
	}
}

// promise is one behaviour of every node.
type promise struct {
	name string
	kept func(x *trial)
}
