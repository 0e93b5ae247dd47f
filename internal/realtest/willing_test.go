package realtest_test

import (
	"context"
	"strconv"

	"github.com/quorumlock/quorumlock/node"
)

// willing is a node without a server, which grants and releases whatever it is asked to, at no cost.
type willing struct{ name string }

func willingNodes(n int) []node.Node {
	nodes := make([]node.Node, n)
	for i := range nodes {
		nodes[i] = &willing{"n" + strconv.Itoa(i)}
	}
	return nodes
}

func (w *willing) Name() string                { return w.name }
func (w *willing) Identity() string            { return w.name }
func (w *willing) Probe(context.Context) error { return nil }
func (w *willing) Close() error                { return nil }

func (w *willing) Do(_ context.Context, ops []node.Op, replies []node.Reply) {
	for i, op := range ops {
		replies[i] = node.Reply{Outcome: node.Granted}
		if op.Kind == node.Release {
			replies[i].Outcome = node.Released
		}
	}
}
