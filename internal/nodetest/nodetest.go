// Package nodetest is the conformance suite of node.Node: the promises on which the coordinator relies, with
// one subtest for each. Every implementation passes it: on servers, in memory, and wrapped by faultinject.
//
// The promises are the files below testdata; see story.go for their language. A few promises, mostly about many callers
// at once, are in Go.
package nodetest

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Subject is a node under test, with the means to act on its deployment from outside. All fields except
// Second are required.
type Subject struct {
	// Node is a handle on an empty deployment without a marker. The suite may close it.
	Node node.Node
	// Pass returns once at least d has passed on the deployment's own clock.
	Pass func(d time.Duration)
	// Plant puts a key that is not a lock, without a TTL.
	Plant func(key string)
	// Keys lists the names that are held now, sorted. It leaves out the marker, fences, tombstones and
	// planted keys.
	Keys func() []string
	// Forget makes the deployment lose everything, its marker too, and keep its identity, as FLUSHALL does.
	// Inboxes stay open.
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
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			for _, p := range g.promises {
				t.Run(p.name, func(t *testing.T) {
					p.kept(&trial{T: t, Subject: open(t), limits: limits, ctx: context.Background(), boxes: map[string]*box{}})
				})
			}
		})
	}
}

// group is the promises about one subject.
type group struct {
	name     string
	promises []promise
}

// promise is one behaviour of every node.
type promise struct {
	name string
	kept func(x *trial)
}

// groups returns all promises: those in text, and behind them those in Go about the same subject.
func groups() []group {
	groups := stories()
	for i, g := range groups {
		groups[i].promises = append(g.promises, inGo[g.name]...)
	}
	return groups
}
