// Package nodetest is the conformance suite of node.Node: what the coordinator relies on,
// one subtest for each promise. Every implementation in this module passes it; run it
// against an implementation of your own:
//
//	func TestMine(t *testing.T) {
//		nodetest.Run(t, func(t *testing.T) nodetest.Subject {
//			n := mine.Open(t)
//			t.Cleanup(func() { _ = n.Close() })
//			return nodetest.Subject{Node: n, Pass: ..., Plant: ..., Keys: ...}
//		})
//	}
package nodetest

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Subject is a node under test, and what the suite has to know and do besides asking it.
// All fields but Second are needed.
type Subject struct {
	// Node is a handle on an empty deployment. The suite may close it.
	Node node.Node
	// Pass returns once at least d has passed on the deployment's own clock.
	Pass func(d time.Duration)
	// Plant puts something that is not a lock at a key, for ever.
	Plant func(key string)
	// Keys lists the names that are held now, sorted: whatever the node keeps for a
	// lock, but neither tombstones nor what was planted.
	Keys func() []string
	// Second opens another handle on the same deployment, and closes it when the test
	// ends. It is nil where there can be only one.
	Second func() node.Node
}

// Run runs every subtest on a Subject of its own. open is called once for each, with the
// subtest's own t.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	for _, group := range []struct {
		name     string
		promises []promise
	}{
		{"acquire", acquiring},
		{"renew", renewing},
		{"release", releasing},
		{"inspect", inspecting},
		{"force-release", forcing},
		{"wrong type", wrongType},
		{"batch", batching},
		{"names", naming},
		{"life", living},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, p := range group.promises {
				t.Run(p.name, func(t *testing.T) {
					p.kept(&trial{T: t, Subject: open(t)})
				})
			}
		})
	}
}

// promise is one thing that every node does.
type promise struct {
	name string
	kept func(x *trial)
}
