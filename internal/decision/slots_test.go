package decision_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func set(slots ...int) decision.Slots {
	s := decision.Slots{}
	for _, i := range slots {
		s = s.With(i)
	}
	return s
}

func TestSlots(t *testing.T) {
	s := set(0, 7, 8, 21)
	assert.Equal(t, decision.Slots{0b1000_0001, 1, 0b10_0000}, s)
	for i := -1; i < 40; i++ {
		assert.Equal(t, slices.Contains([]int{0, 7, 8, 21}, i), s.Has(i), "%d", i)
	}
	for size, count := range map[int]int{0: 0, 1: 1, 7: 1, 8: 2, 9: 3, 21: 3, 22: 4, 100: 4, -1: 0} {
		assert.Equal(t, count, s.Count(size), "%d", size)
	}
	s = s.Without(7).Without(7).Without(100).Without(-1)
	assert.False(t, s.Has(7))
	assert.Equal(t, 3, s.Count(100))
	assert.Zero(t, decision.Slots(nil).Count(10))
	assert.Nil(t, decision.Slots(nil).Without(3))
}

func TestChooseSlots(t *testing.T) {
	free := func(sets ...decision.Slots) []decision.Slots { return sets }
	for _, c := range []struct {
		what                    string
		want, size, need, start int
		reports                 []decision.Slots
		likely, barred          decision.Slots
		chosen                  []int
	}{
		{what: "from the start on", want: 2, size: 5, need: 2, start: 3, chosen: []int{3, 4}},
		{what: "round the end", want: 3, size: 5, need: 2, start: 4, chosen: []int{4, 0, 1}},
		{what: "a start anywhere", want: 1, size: 5, need: 2, start: -1, chosen: []int{4}},
		{what: "a start beyond", want: 1, size: 5, need: 2, start: 7, chosen: []int{2}},
		{what: "not those that are barred", want: 3, size: 5, need: 2, barred: set(0, 2), chosen: []int{1, 3, 4}},
		{what: "fewer, if there are no more", want: 3, size: 3, need: 2, barred: set(1), chosen: []int{0, 2}},
		{what: "none at all", want: 1, size: 1, need: 1, barred: set(0), chosen: []int{}},
		{what: "what it gave back last", want: 1, size: 5, need: 2, likely: set(3), chosen: []int{3}},
		{what: "what nodes say is free", want: 2, size: 5, need: 2, reports: free(set(3, 4), set(4), nil), chosen: []int{4, 3}},
		{what: "enough nodes are as good as all", want: 1, size: 5, need: 2, reports: free(set(1, 4), set(1, 4), set(4)), chosen: []int{1}},
		{what: "rather than what it gave back", want: 1, size: 5, need: 2, reports: free(set(1)), likely: set(3), chosen: []int{1}},
		{what: "of those, what it gave back", want: 1, size: 5, need: 2, reports: free(set(1, 3)), likely: set(3), chosen: []int{3}},
		{what: "not what is beyond the size", want: 2, size: 2, need: 2, reports: free(set(5)), likely: set(6), chosen: []int{0, 1}},
		{what: "nothing wanted", want: 0, size: 2, need: 2},
		{what: "no slots", want: 1, size: 0, need: 2},
	} {
		chosen := decision.ChooseSlots(c.want, c.size, c.need, c.start, c.reports, c.likely, c.barred)
		assert.Equal(t, c.chosen, chosen, c.what)
	}
}
