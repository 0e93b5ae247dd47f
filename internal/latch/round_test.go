package latch

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// noTokens is a TokenClock that observes nothing.
type noTokens struct{}

func (noTokens) Propose(string) uint64  { return 1 }
func (noTokens) Observe(uint64, string) {}
func (noTokens) Plausible(uint64) bool  { return true }
func (noTokens) IsCurrent(uint64) bool  { return true }

// refusing returns one node, or more, which are asked nothing.
func refusing(more ...node.Node) *dispatch.Nodes {
	n := dispatch.New(append(more, memory.New("n1", nil)), dispatch.Env{Clock: clock.Process()})
	n.Close()
	return n
}

// A node counts an id down, and later reports that the latch was deleted since. It has not counted
// the id in its present generation. The simulation found that the other nodes were given the id
// there.
func TestIDsAreOfOneGeneration(t *testing.T) {
	r := newRound(&Latches{env: Env{Tokens: noTokens{}, Nodes: refusing()}, need: 1}, "ready", 0, wire.LatchOp{})
	ids := func() []string { v := r.combined(&r.answers); return v.IDs }
	counts := &dispatch.Call{Op: &wire.Op{Kind: wire.Latch, Latch: &wire.LatchOp{IDs: []string{"q"}}}}
	r.record(counts, &wire.Reply{Outcome: wire.Granted, Latch: &wire.LatchState{Count: 1, Since: 1}})
	assert.Equal(t, []string{"q"}, ids())

	repairs := &dispatch.Call{Op: &wire.Op{Kind: wire.Latch, Latch: &wire.LatchOp{Exact: true}}}
	r.record(repairs, &wire.Reply{Outcome: wire.Denied, Latch: &wire.LatchState{Count: 1, Since: 1}})
	assert.Equal(t, []string{"q"}, ids(), "the node still has its ids")
	r.record(repairs, &wire.Reply{Outcome: wire.Denied, Latch: &wire.LatchState{Generation: 5, Count: 1, Since: 6}})
	assert.Empty(t, ids(), "ids of the earlier generation do not count")
}

// A node counts an id down, and forgets the latch before a repair gives it another id. It has that one alone.
func TestIDsAreOfOneMemory(t *testing.T) {
	for name, later := range map[string]wire.LatchState{
		"loss of memory":         {Count: 2, Since: 1, Born: 3, Lost: 9},
		"loss of the latch only": {Count: 2, Since: 1, Born: 7},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRound(&Latches{env: Env{Tokens: noTokens{}, Nodes: refusing(), Clock: clock.Process()}, need: 1}, "ready", 0, wire.LatchOp{})
			counts := &dispatch.Call{Op: &wire.Op{Kind: wire.Latch, Latch: &wire.LatchOp{IDs: []string{"q"}}}}
			r.record(counts, &wire.Reply{Outcome: wire.Granted, Latch: &wire.LatchState{Count: 2, Since: 1, Born: 3}})
			repairs := &dispatch.Call{Op: &wire.Op{Kind: wire.Latch, Latch: &wire.LatchOp{Exact: true, IDs: []string{"p"}}}}
			r.record(repairs, &wire.Reply{Outcome: wire.Granted, Latch: &later})
			assert.Equal(t, []string{"p"}, r.last[0].IDs)
		})
	}
}

// A node has kept what it knew of a latch if neither its memory nor the latch was lost. A deletion is no loss.
func TestKept(t *testing.T) {
	as := newAnswers(&Env{Nodes: refusing()}, "ready")
	as.last[0] = decision.LatchAnswer{Told: true, Generation: 5, Count: 2}
	as.of[0] = nodeState{memory: 9, born: 3}
	for name, c := range map[string]struct {
		now  wire.LatchState
		kept bool
	}{
		"unchanged":       {wire.LatchState{Generation: 5, Count: 2, Lost: 9, Born: 3, Size: 1}, true},
		"deleted":         {wire.LatchState{Generation: 6, Lost: 9}, true},
		"memory lost":     {wire.LatchState{Generation: 5, Count: 2, Lost: 10, Born: 3}, false},
		"both":            {wire.LatchState{Generation: 6, Lost: 10}, false},
		"latch lost":      {wire.LatchState{Lost: 9}, false},
		"set anew":        {wire.LatchState{Generation: 5, Count: 2, Lost: 9, Born: 4}, false},
		"another number":  {wire.LatchState{Generation: 5, Count: 3, Lost: 9, Born: 3}, false},
		"deletion undone": {wire.LatchState{Generation: 4, Count: 2, Lost: 9, Born: 3}, false},
	} {
		assert.Equal(t, c.kept, as.kept(0, &c.now), name)
	}
}

// A node confirms a deletion, loses its memory, and refuses the next attempt. Its last answer counts.
func TestForgottenDeletionDoesNotCount(t *testing.T) {
	as := newAnswers(&Env{Nodes: refusing()}, "ready")
	as.granted = as.granted.With(0)
	assert.Equal(t, 1, as.deletedOn(5).Len(), "it need not answer again")
	for generation, deleted := range map[uint64]int{4: 0, 5: 1, 6: 1} {
		as.last[0] = decision.LatchAnswer{Told: true, Generation: generation}
		assert.Equal(t, deleted, as.deletedOn(5).Len(), generation)
	}
}

// The first node that confirmed a deletion forgets it a TTL after the first attempt, whenever the last one ends.
func TestDeletionIsPassedOnForHalfATTL(t *testing.T) {
	const ttl = time.Hour
	c := clock.Process()
	l := &Latches{env: Env{Tokens: noTokens{}, Nodes: refusing(memory.New("n0", nil)), Clock: c}, need: 1}
	for ago, passes := range map[time.Duration]bool{0: true, ttl/2 - time.Minute: true, ttl / 2: false, ttl: false} {
		r := newRound(l, "ready", ttl, wire.LatchOp{})
		r.deletes, r.done, r.deletedAt = true, true, c.Now()-ago
		r.granted = r.granted.With(0)
		r.of[1].err = errors.New("away")
		r.passOn()
		assert.Equal(t, passes, r.repaired.Has(1), ago)
	}
}

// A call gives up before its round is decided. Then a node reports that the latch was deleted. The id of
// the call does not count after the deletion.
func TestIDOfACallThatGaveUpDoesNotCountAfterADeletion(t *testing.T) {
	l := &Latches{env: Env{Tokens: noTokens{}, Nodes: refusing()}, need: 1, generations: make(map[string]uint64)}
	r := newRound(l, "ready", 0, wire.LatchOp{IDs: []string{"p"}})
	r.known, r.anyGeneration = r.ask.IDs, true
	counts := &dispatch.Call{Op: &wire.Op{Kind: wire.Latch, Latch: &r.ask}}
	ids := func() []string { v := r.combined(&r.answers); return v.IDs }
	assert.Equal(t, []string{"p"}, ids())
	(&Call{latches: l, name: "ready"}).conclude(r)
	r.record(counts, &wire.Reply{Outcome: wire.Granted, Latch: &wire.LatchState{Count: 2, Since: 1}})
	assert.Equal(t, []string{"p"}, ids(), "the node counted it before the deletion")
	r.record(counts, &wire.Reply{Outcome: wire.Denied, Latch: &wire.LatchState{Generation: 5, Count: 2, Since: 6}})
	assert.Empty(t, ids())
}
