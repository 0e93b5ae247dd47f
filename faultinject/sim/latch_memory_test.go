package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnawareNodes(t *testing.T) {
	of := func(generation, since uint64) latchNode {
		return latchNode{generation: generation, since: since, set: since != 0}
	}
	lost := func(certain uint64, n latchNode) latchNode {
		n.forgot, n.certain = true, certain
		return n
	}
	whole := func(n latchNode) latchNode {
		n.whole = true
		return n
	}
	never := of(0, 100)
	for _, tc := range []struct {
		name string
		node latchNode
		// beside is the knowledge of another node, which never forgot.
		beside latchNode
		want   bool
	}{
		{"it never forgot", of(0, 0), never, false},
		{"it was not asked since it has forgotten", forgetful, never, true},
		{"it was told nothing since", lost(50, of(0, 0)), never, true},
		{"it was told, and forgot before any other was", lost(99, of(0, 100)), never, false},
		{"it may have forgotten after another was", lost(100, of(0, 200)), never, true},
		{"it was given it back", whole(lost(150, of(0, 200))), never, false},
		{"of a generation that is over", whole(lost(150, of(0, 100))), of(120, 180), true},
		{"that was over when it may not have forgotten yet", whole(lost(150, of(0, 100))), of(150, 180), true},
		{"that was over after it had forgotten", whole(lost(150, of(0, 100))), of(151, 180), false},
		{"it knows of the deletion alone", lost(150, of(151, 0)), of(151, 180), false},
		{"of one that came before", lost(150, of(120, 0)), of(120, 180), true},
		{"knowledge of an earlier generation does not matter", lost(150, of(120, 180)), never, false},
	} {
		require.Equal(t, []bool{tc.want, false}, unaware([]latchNode{tc.node, tc.beside}), tc.name)
	}
}

func TestReadableFor(t *testing.T) {
	l := &latchMemory{unreadable: []unreadablePeriod{{2, 5}, {6, 10}, {20, forever}}}
	for _, tc := range []struct{ from, to, want time.Duration }{
		{0, 1, 1}, {0, 3, 2}, {0, 8, 2}, {3, 5, 0}, {3, 7, 1}, {3, 12, 2}, {3, 20, 10}, {12, 15, 3}, {12, 30, 8}, {21, 30, 0}, {5, 4, 0},
	} {
		require.Equal(t, tc.want, l.readableFor(tc.from, tc.to), "from %d to %d", tc.from, tc.to)
	}
	require.Equal(t, 7*time.Second, (&latchMemory{}).readableFor(time.Second, 8*time.Second))
}
