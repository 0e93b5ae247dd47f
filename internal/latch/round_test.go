package latch

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
)

// noTokens is a TokenClock that observes nothing.
type noTokens struct{}

func (noTokens) Propose(string) uint64  { return 1 }
func (noTokens) Observe(uint64, string) {}
func (noTokens) Plausible(uint64) bool  { return true }
func (noTokens) IsCurrent(uint64) bool  { return true }

// A node counts an id down, and later reports that the latch was deleted since. It has not counted
// the id in its present generation. The simulation found that the other nodes were given the id
// there.
func TestIDsAreOfOneGeneration(t *testing.T) {
	r := &round{call: &Call{latches: &Latches{env: Env{Tokens: noTokens{}}, need: 1}, name: "ready"}, kind: node.Latch}
	r.init(1)
	counts := &dispatch.Call{Op: &node.Op{Kind: node.Latch, Latch: &node.LatchOp{IDs: []string{"q"}}}}
	r.recordReply(counts, &node.Reply{Outcome: node.Granted, Latch: &node.LatchState{Count: 1, Since: 1}})
	assert.Equal(t, []string{"q"}, r.merged().IDs)

	repairs := &dispatch.Call{Op: &node.Op{Kind: node.Latch, Latch: &node.LatchOp{Exact: true}}}
	r.recordReply(repairs, &node.Reply{Outcome: node.Denied, Latch: &node.LatchState{Count: 1, Since: 1}})
	assert.Equal(t, []string{"q"}, r.merged().IDs, "the node still has its ids")
	r.recordReply(repairs, &node.Reply{Outcome: node.Denied, Latch: &node.LatchState{Generation: 5, Count: 1, Since: 6}})
	assert.Empty(t, r.merged().IDs, "ids of the earlier generation do not count")
}

// Two calls share a round, and one gives up before the round is decided. Then a node reports that
// the latch was deleted. Only the id of the call that still waits may count after the deletion.
func TestIDOfACallThatGaveUpDoesNotCountAfterADeletion(t *testing.T) {
	l := &Latches{env: Env{Tokens: noTokens{}}, need: 2, batches: make(map[latchKey]*batch)}
	r := &round{call: &Call{latches: l, name: "ready"}, kind: node.Latch, anyGeneration: true, known: []string{"p", "q"}}
	r.ask.IDs = r.known
	r.init(3)
	b := &batch{latches: l, round: r, members: map[string]int{"p": 1, "q": 2}, calls: 3, begun: true}

	b.leave("q")
	assert.Equal(t, []string{"p", "q"}, r.merged().IDs, "another call waits for the same id")
	b.leave("q")
	assert.Equal(t, []string{"p"}, r.merged().IDs)
	counts := &dispatch.Call{Op: &node.Op{Kind: node.Latch, Latch: &node.LatchOp{IDs: r.ask.IDs}}}
	r.recordReply(counts, &node.Reply{Outcome: node.Granted, Latch: &node.LatchState{Count: 2, Since: 1}})
	assert.Equal(t, []string{"p", "q"}, r.merged().IDs, "the node counted both before the deletion")
	r.recordReply(counts, &node.Reply{Outcome: node.Denied, Latch: &node.LatchState{Generation: 5, Count: 2, Since: 6}})
	assert.Equal(t, []string{"p"}, r.merged().IDs)
}
