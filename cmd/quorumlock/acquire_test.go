package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// TestOtherPermits: a slot from before the number of permits was reduced takes none of the present permits.
func TestOtherPermits(t *testing.T) {
	t.Setenv(ownersEnv, "OUTER:1")
	status := &quorumlock.SemaphoreStatus{Name: "k", Permits: 2, Need: 1, Nodes: make([]quorumlock.NodeStatus, 1)}
	holds := func(owner string, slot int) {
		n := &status.Nodes[0]
		n.Holders = append(n.Holders, node.Holder{Name: node.SlotName(node.PoolName("k"), slot), Owner: owner})
	}
	holds("OTHER:1", 0)
	holds("OUTER:1", 3)
	outer, others := otherPermits(status)
	assert.Equal(t, "OUTER:1", outer)
	assert.Equal(t, 2, others)
	holds("OUTER:1", 1)
	_, others = otherPermits(status)
	assert.Equal(t, 1, others)
}
