package decision_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// latchNodes are nodes that keep a latch as the scripts do, and the results that were reported of
// it.
type latchNodes struct {
	t     *rapid.T
	nodes []decision.LatchAnswer
	need  int
	// time is the true time. The clocks are off by less than half of skew.
	time, skew uint64
	// mends are repairs in flight.
	mends []func()
	// confirmed are the ids whose count-down was confirmed, or reported by a read, in the current
	// generation. deleted began it: the last deletion that was confirmed or reported. set is
	// whether a Set in it was.
	confirmed map[string]bool
	deleted   uint64
	set       bool
	// done is set once a read has reported that the latch is done.
	done bool
	// attempted is when each count-down began, and began when each deletion did.
	attempted map[string]uint64
	began     map[uint64]uint64
}

func (l *latchNodes) clock() uint64 {
	return l.time + uint64(rapid.IntRange(0, int(l.skew)).Draw(l.t, "clock")) - l.skew/2
}

// some draws a subset of the nodes.
func (l *latchNodes) some() []int {
	var some []int
	for i := range l.nodes {
		if rapid.IntRange(0, 3).Draw(l.t, "asked") > 0 {
			some = append(some, i)
		}
	}
	return some
}

// told are the answers of some nodes.
func (l *latchNodes) told(from []int, full bool, id string) []decision.LatchAnswer {
	answers := make([]decision.LatchAnswer, len(l.nodes))
	for _, i := range from {
		answers[i] = l.nodes[i]
		answers[i].Told, answers[i].IDs = true, slices.Clone(answers[i].IDs)
		answers[i].Size = len(answers[i].IDs)
		if !full && slices.Contains(answers[i].IDs, id) {
			answers[i].IDs = []string{id}
		} else if !full {
			answers[i].IDs = nil
		}
	}
	return answers
}

// mend repairs nodes: now, later, or never.
func (l *latchNodes) mend(v decision.LatchView, answers []decision.LatchAnswer, full bool) (arrived bool) {
	for i, a := range answers {
		refill := full && v.Count > 0 && !v.Member(a, l.skew)
		if !a.Told || !v.Known || v.Rival != 0 || v.Holds(a) && !refill {
			continue
		}
		send := func() {
			n := &l.nodes[i]
			if n.Generation > v.Generation {
				return
			}
			if n.Generation < v.Generation {
				*n = decision.LatchAnswer{Generation: v.Generation, Memory: n.Memory, Recovering: n.Recovering}
			}
			if v.Count == 0 || n.Count != 0 && n.Count != v.Count && !v.Chosen {
				return
			}
			if n.Count != v.Count || v.Since < n.Since {
				n.Count, n.Since = v.Count, v.Since
			}
			for _, id := range v.IDs {
				add(n, id)
			}
			n.Refilled = n.Refilled || refill && n.Memory == a.Memory
		}
		switch rapid.IntRange(0, 2).Draw(l.t, "mend") {
		case 0:
			send()
		case 1:
			l.mends = append(l.mends, send)
		}
	}
	return true
}

// settle reads again from the same nodes, after the repairs that arrived.
func (l *latchNodes) settle(from []int, full bool, id string, known []string) decision.LatchView {
	answers := l.told(from, full, id)
	v := decision.ViewLatch(answers, l.need, known, l.skew)
	l.mend(v, answers, full)
	return decision.ViewLatch(l.told(from, full, id), l.need, known, l.skew)
}

// add counts down on a node, which takes no more ids than the latch was set to.
func add(n *decision.LatchAnswer, id string) {
	if len(n.IDs) < n.Count && !slices.Contains(n.IDs, id) {
		n.IDs = append(slices.Clone(n.IDs), id)
		slices.Sort(n.IDs)
	}
}

func (l *latchNodes) countDown(id string, token uint64) {
	from := l.some()
	for _, i := range from {
		if n := &l.nodes[i]; n.Count > 0 && n.Generation < token {
			add(n, id)
		}
	}
	l.attempted[id] = l.time
	if v := l.settle(from, false, id, []string{id}); v.Known && v.Rival == 0 && v.Holders >= l.need {
		l.turn(v.Generation)
		if v.Count > 0 {
			l.confirmed[id] = true
		} else {
			require.False(l.t, l.set, "the latch was set")
		}
	}
}

func (l *latchNodes) read() {
	v := l.settle(l.some(), true, "", nil)
	if !v.Known || v.Rival != 0 || v.Holders < l.need {
		return
	}
	l.turn(v.Generation)
	if l.set {
		require.Equal(l.t, 5, v.Count, "the latch was set to 5")
	}
	for id := range l.confirmed {
		require.True(l.t, v.Done() || slices.Contains(v.IDs, id), "the id %s was confirmed", id)
	}
	require.True(l.t, v.Done() || !l.done, "the latch was done")
	l.done = v.Done()
	for _, id := range v.IDs {
		require.GreaterOrEqual(l.t, l.attempted[id], l.began[v.Generation], "the id counted down before the deletion")
		l.confirmed[id] = true
	}
}

// turn records the generation that was reported or confirmed. A deletion that was neither may
// become known later, but then for good.
func (l *latchNodes) turn(generation uint64) {
	require.GreaterOrEqual(l.t, generation, l.deleted, "a deleted latch")
	if generation > l.deleted {
		require.Contains(l.t, l.began, generation)
		l.deleted, l.set, l.done = generation, false, false
		clear(l.confirmed)
	}
}

// propose returns a token by some clock, of a client that has seen the earlier deletions.
func (l *latchNodes) propose() uint64 {
	token := l.clock()
	for began := range l.began {
		token = max(token, began+1)
	}
	return token
}

func (l *latchNodes) setTo(count int) {
	from, token := l.some(), l.propose()
	for _, i := range from {
		if n := &l.nodes[i]; n.Count == 0 && n.Generation < token && !n.Recovering {
			n.Count, n.Since = count, token
		}
	}
	v := l.settle(from, false, "", nil)
	if v.Known && v.Rival == 0 && v.Count == count && v.Holders >= l.need {
		l.turn(v.Generation)
		l.set = true
	}
}

func (l *latchNodes) delete() {
	token := l.propose()
	l.began[token] = l.time
	granted := 0
	for _, i := range l.some() {
		if n := &l.nodes[i]; n.Generation < token {
			*n = decision.LatchAnswer{Generation: token, Memory: n.Memory, Recovering: n.Recovering}
			granted++
		}
	}
	if granted >= l.need {
		l.turn(token)
	}
}

// TestLatchProperty runs reads by different majorities, memory losses, deletions and late repairs
// in any order. While no more nodes forget at a time than the others can make up for, no confirmed
// or reported count-down is missing from a later read. With any number of losses, no read reports a
// count-down that did not happen.
func TestLatchProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, 4, 5}).Draw(t, "nodes")
		l := &latchNodes{
			t: t, nodes: make([]decision.LatchAnswer, n), need: n/2 + 1, time: 10_000, skew: 20,
			confirmed: make(map[string]bool), attempted: make(map[string]uint64), began: make(map[uint64]uint64),
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			l.time += 1 + uint64(rapid.IntRange(0, 40).Draw(t, "passes"))
			switch rapid.SampledFrom([]string{"set", "count", "count", "count", "read", "read", "read", "forget", "recover", "mend", "mend", "delete"}).Draw(t, "action") {
			case "set":
				l.setTo(5)
			case "count":
				l.countDown(fmt.Sprint(step), l.clock()+l.skew)
			case "read":
				l.read()
			case "forget":
				i := rapid.IntRange(0, n-1).Draw(t, "node")
				l.nodes[i] = decision.LatchAnswer{Memory: l.clock(), Recovering: true}
				if witnesses := l.witnesses(); witnesses < l.need {
					return // that is more than can be made up for
				}
			case "recover":
				i := rapid.IntRange(0, n-1).Draw(t, "node")
				if l.upToDate(i) {
					l.nodes[i].Recovering = false
					l.time += l.skew
				}
			case "mend":
				if len(l.mends) > 0 {
					i := rapid.IntRange(0, len(l.mends)-1).Draw(t, "which")
					l.mends[i]()
					l.mends = slices.Delete(l.mends, i, i+1)
				}
			case "delete":
				l.delete()
			}
		}
	})
}

// upToDate reports whether a node knows everything there is to know, because a call has used the
// latch meanwhile. Then its recovery may end.
func (l *latchNodes) upToDate(i int) bool {
	v, answers := l.all()
	return answers[i].Generation == v.Generation && v.Member(answers[i], l.skew) || v.Count == 0 && answers[i].Generation == v.Generation
}

// witnesses is how many reliable nodes there are, if all answer.
func (l *latchNodes) witnesses() (n int) {
	v, answers := l.all()
	for _, a := range answers {
		if v.Member(a, l.skew) {
			n++
		}
	}
	return n
}

// all returns the answers that all nodes would give.
func (l *latchNodes) all() (decision.LatchView, []decision.LatchAnswer) {
	all := make([]int, len(l.nodes))
	for i := range all {
		all[i] = i
	}
	answers := l.told(all, true, "")
	return decision.ViewLatch(answers, l.need, nil, l.skew), answers
}
