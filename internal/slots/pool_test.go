package slots

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// noJitter makes the search for slots start at slot 0.
func noJitter() float64 { return 0 }

func request(p *Pool, want, permits int) *Request {
	return &Request{Pool: p, Semaphore: "jobs", Want: want, Permits: permits}
}

// numbers are the slots behind names.
func numbers(p *Pool, names []string) (slots []int) {
	for _, name := range names {
		slots = append(slots, wire.SlotOf(p.Name(), name))
	}
	return slots
}

func TestAttemptsOfOneClientChooseDifferentSlots(t *testing.T) {
	p := NewPools(3, noJitter).Of("jobs")
	first, _, ok := request(p, 2, 4).Choose(2, nil)
	require.True(t, ok)
	second, _, ok := request(p, 2, 4).Choose(2, nil)
	require.True(t, ok)
	require.ElementsMatch(t, []int{0, 1, 2, 3}, append(numbers(p, first), numbers(p, second)...))
	third, _, ok := request(p, 1, 4).Choose(2, nil)
	require.True(t, ok)
	require.Len(t, third, 1, "if all are taken, it asks for one that is: nodes then queue it")
}

func TestMorePermitsThanThereAreCannotBeChosen(t *testing.T) {
	p := NewPools(3, noJitter).Of("jobs")
	_, size, ok := request(p, 5, 4).Choose(2, nil)
	require.False(t, ok)
	require.Equal(t, 4, size, "the configured size")
	p.LearnSize(6, 10)
	p.LearnSize(1, 9)
	names, size, ok := request(p, 5, 4).Choose(2, nil)
	require.True(t, ok)
	require.Equal(t, 6, size, "the latest setting prevails over the configuration and older settings")
	require.Len(t, names, 5)
}

func TestReleasedSlotsAreChosenFirst(t *testing.T) {
	p := NewPools(3, noJitter).Of("jobs")
	r := request(p, 1, 8)
	var held [][]string
	for range 8 {
		names, _, ok := r.Choose(2, nil)
		require.True(t, ok)
		held = append(held, names)
	}
	r.GiveUp(held[5], true)
	again, _, ok := r.Choose(2, nil)
	require.True(t, ok)
	require.Equal(t, held[5], again)
}

func TestReportsDecideWhetherAnAttemptIsPromising(t *testing.T) {
	p := NewPools(3, noJitter).Of("jobs")
	r := request(p, 1, 2)
	require.False(t, r.Promising(2), "no node has reported")
	denied := func(free decision.Slots) *wire.Reply {
		return &wire.Reply{Outcome: wire.Denied, Pool: wire.PoolState{Size: 2, Free: free}}
	}
	free, full := decision.Slots{}.With(1), decision.Slots{0}
	r.Learn(0, nil, denied(free))
	require.True(t, r.Promising(2))
	r.Learn(1, nil, denied(full))
	require.True(t, r.Promising(2), "two of three may still have a free slot")
	r.Learn(2, nil, denied(full))
	require.False(t, r.Promising(2))
	r.Learn(1, nil, denied(free))
	require.True(t, r.Promising(2))
	r.Learn(0, []string{wire.SlotName(p.Name(), 1)}, &wire.Reply{Outcome: wire.Granted})
	require.False(t, r.Promising(2), "a grant takes the slot from what the node reported")
}

func TestLockHasNoSlots(t *testing.T) {
	var r *Request
	require.Zero(t, r.OnNodes())
	require.Equal(t, "c:1", r.WaiterID("c:1"))
	require.False(t, r.WrongSlots(wire.PoolState{Size: 1, Free: decision.Slots{1}}))
}

func TestUnusedPoolsAreForgotten(t *testing.T) {
	ps := NewPools(3, noJitter)
	used := ps.Of("used")
	_, _, ok := request(used, 1, 2).Choose(2, nil)
	require.True(t, ok)
	for i := range 10 * minPools {
		once := request(ps.Of(fmt.Sprint(i)), 1, 1)
		names, _, _ := once.Choose(1, nil)
		once.GiveUp(names, true)
	}
	require.LessOrEqual(t, len(ps.byName), 2*minPools)
	require.Same(t, used, ps.Of("used"))
	require.Equal(t, wire.Pool{Name: used.Name(), Size: 2}, ps.OnNodes(used.Name()))
	require.Zero(t, ps.OnNodes("other"))
}

func TestMayFit(t *testing.T) {
	p := NewPools(1, func() float64 { return 0 }).Of("jobs")
	held, more := Request{Pool: p, Want: 3, Permits: 10}, Request{Pool: p, Want: 4, Permits: 10}
	_, _, ok := held.Choose(1, nil)
	require.True(t, ok)
	require.True(t, more.MayFit(9))
	require.False(t, more.MayFit(10), "as many calls ask as there are permits")
	p.LearnSize(7, 1)
	require.True(t, more.MayFit(6))
	p.LearnSize(6, 2)
	require.False(t, more.MayFit(0))
	p.LearnSize(20, 3)
	require.True(t, more.MayFit(15), "more permits were set than were configured")
}
