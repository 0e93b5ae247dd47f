package decision

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListsOfAnyLengthAgreeWithOneNodeMore(t *testing.T) {
	for n := 1; n <= 64; n++ {
		require.True(t, ListsAgree(n, n, n) && ListsAgree(n, n+1, n), n)
		require.Equal(t, n%2 == 0, ListsAgree(n, n+2, n), n)
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
