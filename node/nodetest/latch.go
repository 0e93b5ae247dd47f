package nodetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// latch makes an operation on a latch.
func latch(name string, ask node.LatchOp) node.Op {
	return node.Op{Kind: node.Latch, Names: []string{name}, TTL: long, Latch: &ask}
}

// setting sets a latch for the first time.
func (x *trial) setting(name string, count int) node.Op {
	token := x.token()
	return proposing(token, latch(name, node.LatchOp{Count: count, First: true, Since: token}))
}

// counting counts down.
func counting(name string, ids ...string) node.Op { return latch(name, node.LatchOp{IDs: ids}) }

// exactly makes the operation one for a single generation.
func exactly(generation uint64, op node.Op) node.Op {
	ask := *op.Latch
	ask.Exact, ask.Generation = true, generation
	op.Latch = &ask
	return op
}

// looking lists the ids.
func looking(name string) node.Op { return latch(name, node.LatchOp{List: true}) }

func unlatch(name string) node.Op {
	return node.Op{Kind: node.Unlatch, Names: []string{name}, TTL: long}
}

// latched runs operations on latches, and requires the outcome of each. It returns the last state.
func (x *trial) latched(outcome node.Outcome, ops ...node.Op) (s *node.LatchState) {
	x.Helper()
	for _, op := range ops {
		r := x.do(op)[0]
		x.answered(outcome, r)
		require.NotNil(x, r.Latch)
		s = r.Latch
	}
	return s
}

// stands requires this state of a latch.
func (x *trial) stands(name string, generation uint64, count int, ids ...string) *node.LatchState {
	x.Helper()
	s := x.latched(node.Granted, looking(name))
	assert.Equal(x, generation, s.Generation)
	assert.Equal(x, count, s.Count)
	assert.Equal(x, len(ids), s.Size)
	assert.Equal(x, slices.Sorted(slices.Values(ids)), s.IDs)
	return s
}

// latching has the promises about latches.
var latching = []promise{
	{"a latch that is not set is not counted down", func(x *trial) {
		x.stands("a", 0, 0)
		x.latched(node.Denied, counting("a", "1"))
		x.stands("a", 0, 0)
	}},
	{"a latch is set once", func(x *trial) {
		first := x.setting("a", 3)
		s := x.latched(node.Granted, first)
		assert.Equal(x, 3, s.Count)
		assert.Equal(x, first.Token, s.Since)
		s = x.latched(node.Granted, x.setting("a", 3))
		assert.Equal(x, first.Token, s.Since, "it was set before")
		s = x.latched(node.Denied, x.setting("a", 4))
		assert.Equal(x, 3, s.Count)
		x.stands("a", 0, 3)
		x.stands("b", 0, 0)
	}},
	{"it is set since the earliest known time", func(x *trial) {
		early, late := x.token(), x.token()
		set := x.setting("a", 3)
		x.latched(node.Granted, set)
		for _, tc := range [][2]uint64{{set.Token + 1, set.Token}, {late, late}, {early, early}, {late, early}} {
			op := exactly(0, latch("a", node.LatchOp{Count: 3, Since: tc[0]}))
			assert.Equal(x, tc[1], x.latched(node.Granted, op).Since)
		}
		x.latched(node.Denied, exactly(0, latch("a", node.LatchOp{Count: 4, Since: 1})))
		assert.Equal(x, early, x.stands("a", 0, 3).Since)
	}},
	{"an id counts once", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 3))
		for range 3 {
			assert.Equal(x, 1, x.latched(node.Granted, counting("a", "1")).Size)
		}
		assert.Equal(x, 3, x.latched(node.Granted, counting("a", "2", "1", "3")).Size)
		x.stands("a", 0, 3, "1", "2", "3")
	}},
	{"a latch and a lock of the same name are independent", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 1))
		x.keys()
		x.want(node.Granted, acquire("o1", long, "a"))
		x.latched(node.Granted, counting("a", "1"), unlatch("a"))
		x.denied(acquire("o2", long, "a"), "a", "o1")
	}},
	{"any bytes make a name and an id, and names that look alike are different", func(x *trial) {
		names := slices.Concat(odd, alike)
		slices.Sort(names)
		names = slices.Compact(names)
		for i, name := range names {
			x.latched(node.Granted, x.setting(name, i+2), counting(name, name, ""))
		}
		for i, name := range names {
			x.stands(name, 0, i+2, name, "")
		}
	}},
	{"all ids are listed at once, in the order of their bytes", func(x *trial) {
		ids := make([]string, node.MaxLatchCount)
		for i := range ids {
			ids[i] = fmt.Sprint("id ", (i*7919)%len(ids)) // not in sorted order
		}
		x.latched(node.Granted, x.setting("a", len(ids)), counting("a", ids[:600]...), counting("a", ids[500:]...))
		s := x.latched(node.Granted, looking("a"))
		slices.Sort(ids)
		assert.True(x, slices.Equal(ids, s.IDs), "%d ids", len(s.IDs))
		assert.Empty(x, x.latched(node.Granted, latch("a", node.LatchOp{})).IDs, "it was not asked to")
	}},
	{"a latch keeps no more ids than it was set to", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 3), counting("a", "1", "2"))
		assert.Equal(x, 3, x.latched(node.Granted, counting("a", "1", "3", "4")).Size)
		x.latched(node.Granted, counting("a", "5"), exactly(0, latch("a", node.LatchOp{Count: 3, Since: x.token(), IDs: []string{"6"}})))
		x.stands("a", 0, 3, "1", "2", "3")
	}},
	{"a latch is born anew after a loss or a deletion", func(x *trial) {
		assert.Zero(x, x.stands("a", 0, 0).Born)
		x.latched(node.Granted, x.setting("a", 2))
		first := x.latched(node.Granted, counting("a", "1"))
		assert.Positive(x, first.Born)
		assert.Equal(x, first.Born, x.latched(node.Granted, x.setting("a", 2)).Born)
		deletion := proposing(x.token(), unlatch("a"))
		assert.Zero(x, x.latched(node.Granted, deletion).Born)
		second := x.latched(node.Granted, x.setting("a", 2))
		assert.Positive(x, second.Born)
		x.latched(node.Granted, counting("a", "2"))
		assert.Equal(x, []string{"2"}, x.latched(node.Granted, looking("a")).IDs)

		brief := x.setting("b", 2)
		brief.TTL = short
		born := x.latched(node.Granted, brief).Born
		x.Pass(short)
		assert.Greater(x, x.latched(node.Granted, x.setting("b", 2)).Born, born)
	}},
	{"a deleted latch is void", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 2), counting("a", "1"))
		deletion := proposing(x.token(), unlatch("a"))
		s := x.latched(node.Granted, deletion)
		assert.Equal(x, node.LatchState{Generation: deletion.Token, Until: s.Until}, *s)
		x.stands("a", deletion.Token, 0)
		x.latched(node.Granted, x.setting("a", 5), counting("a", "2"))
		x.stands("a", deletion.Token, 5, "2")
		x.latched(node.Granted, deletion) // again
		x.stands("a", deletion.Token, 5, "2")
	}},
	{"the deletion of an absent latch counts too", func(x *trial) {
		set := x.setting("a", 2)
		deletion := proposing(x.token(), unlatch("a"))
		x.latched(node.Granted, deletion)
		x.latched(node.Denied, set)
		x.stands("a", deletion.Token, 0)
	}},
	{"no late operation reaches a later generation", func(x *trial) {
		late := proposing(x.token(), counting("a", "late"))
		set := x.setting("a", 2)
		x.latched(node.Granted, x.setting("a", 1))
		deletion := proposing(x.token(), unlatch("a"))
		x.latched(node.Granted, deletion)
		x.latched(node.Granted, x.setting("a", 3))
		for _, op := range []node.Op{late, set, exactly(0, counting("a", "late")), proposing(deletion.Token, counting("a", "late"))} {
			s := x.latched(node.Denied, op)
			assert.Equal(x, deletion.Token, s.Generation)
		}
		x.stands("a", deletion.Token, 3)
	}},
	{"a deletion must be later than all before it", func(x *trial) {
		early := proposing(x.token(), unlatch("a"))
		set := x.setting("a", 2)
		x.latched(node.Granted, set)
		s := x.latched(node.Denied, early)
		assert.Equal(x, set.Token, s.Since)
		x.latched(node.Denied, proposing(set.Token, unlatch("a")))
		between := x.token()
		count := proposing(x.token(), counting("a", "1"))
		x.latched(node.Granted, count)
		s = x.latched(node.Denied, proposing(between, unlatch("a")))
		assert.Equal(x, count.Token, s.Last)
		x.stands("a", 0, 2, "1")
		deletion := proposing(x.token(), unlatch("a"))
		x.latched(node.Granted, deletion)
		s = x.latched(node.Denied, proposing(count.Token, unlatch("a")))
		assert.Equal(x, deletion.Token, s.Generation)
	}},
	{"an exact operation makes an earlier generation void", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 2), counting("a", "1"))
		later, since := x.token(), x.token()
		x.latched(node.Denied, exactly(later, counting("a", "2")), exactly(later, looking("a")))
		x.stands("a", 0, 2, "1")
		for range 2 {
			s := x.latched(node.Granted, exactly(later, latch("a", node.LatchOp{Count: 3, Since: since, IDs: []string{"2"}})))
			assert.Equal(x, since, s.Since)
			x.stands("a", later, 3, "2")
		}
		x.latched(node.Granted, exactly(later, counting("a", "3")))
		x.latched(node.Denied, exactly(since, counting("a", "4")))
		x.stands("a", later, 3, "2", "3")
	}},
	{"a missed deletion can be repeated from other nodes", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 2), counting("a", "1"))
		later := x.token()
		void := exactly(later, latch("a", node.LatchOp{Void: true, List: true}))
		for range 2 {
			s := x.latched(node.Granted, void)
			assert.Equal(x, node.LatchState{Generation: later}, *s)
		}
		x.latched(node.Granted, void)
		x.stands("a", later, 0)
		x.latched(node.Granted, x.setting("a", 1), void)
		x.stands("a", later, 1)
		x.latched(node.Denied, exactly(later-1, latch("a", node.LatchOp{Void: true})))
		x.stands("a", later, 1)
		x.latched(node.Granted, exactly(later, latch("b", node.LatchOp{Void: true})))
		x.stands("b", later, 0)
	}},
	{"only a count that was chosen replaces another", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 2), counting("a", "1"))
		other := exactly(0, latch("a", node.LatchOp{Count: 3, Since: x.token(), IDs: []string{"2"}}))
		x.latched(node.Denied, other)
		x.stands("a", 0, 2, "1")
		other.Latch.Chosen = true
		x.latched(node.Granted, other)
		x.stands("a", 0, 3, "1", "2")
	}},
	{"a latch lives for its TTL, and use refreshes it", func(x *trial) {
		set := x.setting("a", 2)
		set.TTL = short
		x.latched(node.Granted, set)
		x.Pass(short)
		x.stands("a", 0, 0)
		set = x.setting("a", 2)
		set.TTL = short
		x.latched(node.Granted, set, counting("a", "1"))
		x.Pass(short)
		look := looking("a")
		look.TTL = short
		assert.Equal(x, []string{"1"}, x.latched(node.Granted, look).IDs, "never shorter")
	}},
	{"looking refreshes it too", func(x *trial) {
		set := x.setting("a", 2)
		set.TTL = 3 * time.Second
		x.latched(node.Granted, set)
		x.stands("a", 0, 2)
		x.Pass(set.TTL)
		x.stands("a", 0, 2)
	}},
	{"a deletion is kept as long as the latch would have lived", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 2))
		deletion := proposing(x.token(), unlatch("a"))
		deletion.TTL = short
		x.latched(node.Granted, deletion)
		x.Pass(short)
		x.stands("a", deletion.Token, 0)
		deletion = proposing(x.token(), unlatch("b"))
		deletion.TTL = short
		x.latched(node.Granted, deletion)
		x.Pass(short)
		x.stands("b", 0, 0)
	}},
	{"a node that lost its memory sets no new latch, but takes back the state of other nodes", func(x *trial) {
		x.Forget()
		set := x.setting("a", 2)
		x.fails(node.ErrRecovering, set)
		s := x.latched(node.Granted, exactly(7, latch("a", node.LatchOp{Count: 2, Since: 9, IDs: []string{"1"}})))
		assert.Positive(x, s.Until)
		assert.False(x, s.Whole)
		s = x.stands("a", 7, 2, "1")
		assert.False(x, s.Whole)
		x.latched(node.Granted, counting("a", "2"), unlatch("a"))
	}},
	{"a latch is whole once it was given back, until the next loss", func(x *trial) {
		for _, lose := range []func(){x.Forget, x.Restart} {
			lose()
			until := x.latched(node.Granted, looking("a")).Until
			fill := func(whole int64) node.Op {
				return exactly(0, latch("a", node.LatchOp{Count: 2, Since: 9, IDs: []string{"1"}, Whole: whole}))
			}
			assert.False(x, x.latched(node.Granted, fill(until-1)).Whole, "as of an earlier life")
			s := x.latched(node.Granted, fill(until))
			assert.True(x, s.Whole)
			assert.Equal(x, until, s.Until)
			assert.True(x, x.latched(node.Granted, counting("a", "1")).Whole)
			x.Pass(short)
		}
		x.Restart()
		assert.False(x, x.stands("a", 0, 2, "1").Whole)
	}},
	{"a node that never lost its memory says so", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 2))
		s := x.stands("a", 0, 2)
		assert.Zero(x, s.Until)
		assert.False(x, s.Whole)
	}},
	{"tokens that are far from the clock are refused, and other limits", func(x *trial) {
		x.latched(node.Granted, x.setting("a", 2))
		for _, op := range []node.Op{counting("a", "1"), looking("a"), unlatch("a")} {
			far := x.token() + uint64(2*limits.MaxClockSkew.Microseconds())
			x.fails(node.ErrClock, proposing(far, op))
			x.fails(node.ErrClock, proposing(x.token()-uint64(2*limits.MaxTTL.Microseconds()), op))
			for _, other := range others(limits) {
				x.fails(node.ErrSettings, under(other, op))
			}
		}
		x.stands("a", 0, 2)
	}},
}
