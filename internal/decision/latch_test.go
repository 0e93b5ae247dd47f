package decision_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestViewLatch(t *testing.T) {
	type answers []decision.LatchAnswer
	const skew = 10
	set := func(count int, ids ...string) decision.LatchAnswer {
		return decision.LatchAnswer{Told: true, Count: count, Since: 100, IDs: ids}
	}
	full := func(count int, ids ...string) decision.LatchAnswer {
		a := set(count, ids...)
		a.Size = len(ids)
		return a
	}
	later := func(generation uint64, a decision.LatchAnswer) decision.LatchAnswer {
		a.Generation = generation
		return a
	}
	lost := func(memory uint64, a decision.LatchAnswer) decision.LatchAnswer {
		a.Memory = memory
		return a
	}
	since := func(token uint64, a decision.LatchAnswer) decision.LatchAnswer {
		a.Since = token
		return a
	}
	refilled := func(a decision.LatchAnswer) decision.LatchAnswer {
		a.Refilled = true
		return a
	}
	unset, recovering := decision.LatchAnswer{Told: true}, decision.LatchAnswer{Told: true, Recovering: true, Memory: 500}
	for _, tc := range []struct {
		name    string
		answers answers
		known   []string
		want    decision.LatchView
	}{
		{"no node has answered", answers{{}, {}, {}}, nil, decision.LatchView{}},
		{"too few have", answers{{}, set(2, "x"), {}}, nil, decision.LatchView{Count: 2, Since: 100, IDs: []string{"x"}, Holders: 1}},
		{"it is not set", answers{unset, unset, {}}, nil, decision.LatchView{Known: true, Holders: 2}},
		{"all agree", answers{set(2, "x"), set(2, "x"), set(2, "x")}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Chosen: true, IDs: []string{"x"}, Holders: 3,
		}},
		{"a node with as many ids as it takes has all that matters", answers{full(2, "x"), full(2, "y", "z"), set(2, "x", "y", "z")}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Chosen: true, IDs: []string{"x", "y", "z"}, Holders: 2,
		}},
		{"the union counts", answers{set(2, "x"), set(2, "y"), {}}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Chosen: true, IDs: []string{"x", "y"},
		}},
		{"in any order", answers{set(2, "y"), set(2, "x"), {}}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Chosen: true, IDs: []string{"x", "y"},
		}},
		{"with what the caller knows", answers{set(2, "x"), set(2, "x", "y"), {}}, []string{"y", "x"}, decision.LatchView{
			Known: true, Count: 2, Since: 100, Chosen: true, IDs: []string{"x", "y"}, Holders: 1,
		}},
		{"one that missed the setting is a witness", answers{set(2, "x"), unset, {}}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, IDs: []string{"x"}, Holders: 1,
		}},
		{"one that has forgotten it is none", answers{set(2, "x"), lost(90, unset), {}}, nil, decision.LatchView{
			Count: 2, Since: 100, IDs: []string{"x"}, Holders: 1,
		}},
		{"nor is one that knows of some since", answers{set(2, "x"), lost(500, set(2, "y")), {}}, nil, decision.LatchView{
			Count: 2, Since: 100, IDs: []string{"x", "y"},
		}},
		{"until it was given back all", answers{set(2, "x"), refilled(lost(500, set(2, "x"))), {}}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Chosen: true, IDs: []string{"x"}, Holders: 2,
		}},
		{"in this generation", answers{later(7, set(2)), refilled(lost(500, set(2, "x"))), {}}, nil, decision.LatchView{
			Generation: 7, Count: 2, Since: 100, Holders: 1,
		}},
		{"even if it forgot before it was set, as far as those know who answer", answers{set(2, "x"), lost(1, unset), {}}, nil, decision.LatchView{
			Count: 2, Since: 100, IDs: []string{"x"}, Holders: 1,
		}},
		{"one that forgot before it was told is a witness", answers{set(2, "x"), lost(89, set(2)), {}}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Chosen: true, IDs: []string{"x"}, Holders: 1,
		}},
		{"not if others were told before", answers{set(2, "x"), lost(89, set(2)), since(99, set(2))}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 99, Chosen: true, IDs: []string{"x"},
		}},
		{"and then it is one of too few", answers{{}, lost(89, set(2)), since(99, set(2))}, nil, decision.LatchView{
			Count: 2, Since: 99, Holders: 1,
		}},
		{"one that forgot before the latch was deleted is a witness of what came after", answers{later(511, since(600, set(2, "x"))), refilled(lost(500, set(3, "y"))), {}}, nil, decision.LatchView{
			Known: true, Generation: 511, Count: 2, Since: 600, IDs: []string{"x"}, Holders: 1,
		}},
		{"even if it was told nothing", answers{later(511, since(600, set(2, "x"))), lost(500, unset), later(511, lost(500, unset))}, nil, decision.LatchView{
			Known: true, Generation: 511, Count: 2, Since: 600, IDs: []string{"x"}, Holders: 1,
		}},
		{"not if it may have been after that", answers{later(510, since(600, set(2, "x"))), refilled(lost(500, set(3, "y"))), later(510, lost(500, unset))}, nil, decision.LatchView{
			Generation: 510, Count: 2, Since: 600, IDs: []string{"x"}, Holders: 1,
		}},
		{"or was", answers{later(489, since(600, set(2, "x"))), refilled(lost(500, set(3, "y"))), {}}, nil, decision.LatchView{
			Generation: 489, Count: 2, Since: 600, IDs: []string{"x"}, Holders: 1,
		}},
		{"one that recovers cannot say that it is not set", answers{unset, recovering, {}}, nil, decision.LatchView{Holders: 2}},
		{"others can", answers{unset, recovering, unset}, nil, decision.LatchView{Known: true, Holders: 3}},
		{"what is of an earlier generation is void", answers{later(7, set(3, "y")), set(2, "x"), {}}, nil, decision.LatchView{
			Known: true, Generation: 7, Count: 3, Since: 100, IDs: []string{"y"}, Holders: 1,
		}},
		{"so is a latch that one knows to be deleted", answers{later(7, unset), set(2, "x"), set(2, "x")}, nil, decision.LatchView{
			Known: true, Generation: 7, Holders: 1,
		}},
		{"a majority decides what it is set to", answers{set(2, "x"), set(3, "x"), set(3)}, nil, decision.LatchView{
			Known: true, Count: 3, Since: 100, Chosen: true, IDs: []string{"x"}, Holders: 1,
		}},
		{"a node that may have forgotten another number does not choose", answers{set(3), lost(500, since(600, set(4))), since(600, set(4))}, nil, decision.LatchView{
			Known: true, Count: 4, Since: 100, Rival: 3,
		}},
		{"without one it is disputed", answers{set(3), set(2), {}}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Rival: 3, Holders: 1,
		}},
		{"also beside a node where it is not set", answers{set(3), set(2), unset}, nil, decision.LatchView{
			Known: true, Count: 2, Since: 100, Rival: 3, Holders: 1,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := decision.ViewLatch(tc.answers, 2, tc.known, skew)
			require.Equal(t, fmt.Sprintf("%+v", tc.want), fmt.Sprintf("%+v", got))
		})
	}
}

func TestLatchViews(t *testing.T) {
	for _, tc := range []struct {
		count, ids, left int
		done             bool
	}{{0, 0, 0, false}, {0, 1, 0, false}, {2, 0, 2, false}, {2, 1, 1, false}, {2, 2, 0, true}, {2, 3, 0, true}} {
		v := decision.LatchView{Count: tc.count, IDs: make([]string, tc.ids)}
		require.Equal(t, tc.done, v.Done(), "%+v", tc)
		require.Equal(t, tc.left, v.Left(), "%+v", tc)
	}
	v := decision.LatchView{Generation: 3, Count: 2, IDs: []string{"x", "y", "z"}}
	require.Equal(t, []string{"x", "z"}, v.Missing(decision.LatchAnswer{Told: true, Generation: 3, IDs: []string{"y"}}))
	require.Equal(t, v.IDs, v.Missing(decision.LatchAnswer{Told: true, Generation: 2, IDs: []string{"y"}}))
	require.Empty(t, v.Missing(decision.LatchAnswer{Told: true, Generation: 3, IDs: v.IDs}))
	// Later ids on a node do not make up for the ids that it lacks.
	require.Equal(t, []string{"z"}, v.Missing(decision.LatchAnswer{Told: true, Generation: 3, IDs: []string{"x", "y", "y2"}}))
	require.Empty(t, v.Missing(decision.LatchAnswer{Told: true, Generation: 3, IDs: []string{"x", "y", "y2", "z"}}))
}
