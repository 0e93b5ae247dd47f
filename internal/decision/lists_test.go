package decision

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListsAgree(t *testing.T) {
	for _, c := range []struct {
		a, b, common int
		agree        bool
	}{
		{3, 3, 3, true},
		{3, 4, 3, true},
		{4, 5, 4, true},
		{1, 2, 1, true},
		{2, 3, 2, true},
		{3, 5, 3, false},
		{3, 3, 2, false},
		{4, 4, 3, true},
		{5, 5, 4, false},
		{5, 7, 5, false},
		{1, 3, 1, false},
		{1, 1, 0, false},
		{3, 3, 0, false},
		{5, 5, 3, false},
		{7, 7, 6, false},
	} {
		assert.Equal(t, c.agree, ListsAgree(c.a, c.b, c.common), c)
		assert.Equal(t, c.agree, ListsAgree(c.b, c.a, c.common), c)
	}
	for n := 1; n <= 64; n++ {
		require.True(t, ListsAgree(n, n, n) && ListsAgree(n, n+1, n), n)
	}
}

// TestListsAgreeExactlyIfAllMajoritiesMeet compares the rule with all pairs of majorities of all lists within seven nodes.
func TestListsAgreeExactlyIfAllMajoritiesMeet(t *testing.T) {
	const most = 7
	majorities := map[uint][]uint{}
	for list := uint(1); list < 1<<most; list++ {
		for part := list; part > 0; part = (part - 1) & list {
			if bits.OnesCount(part) == bits.OnesCount(list)/2+1 {
				majorities[list] = append(majorities[list], part)
			}
		}
	}
	for a := uint(1); a < 1<<most; a++ {
		for b := a; b < 1<<most; b++ {
			meet := true
			for _, x := range majorities[a] {
				for _, y := range majorities[b] {
					meet = meet && x&y != 0
				}
			}
			require.Equal(t, meet, ListsAgree(bits.OnesCount(a), bits.OnesCount(b), bits.OnesCount(a&b)), "%b and %b", a, b)
		}
	}
}
