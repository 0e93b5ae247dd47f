package decision_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
)

func TestUsurper(t *testing.T) {
	for _, c := range []struct{ holders, owner string }{
		{"", ""},
		{"-", ""},
		{"x", "x"},
		{"x -", ""},
		{"x x", "x"},
		{"x x -", "x"},
		{"- x x", "x"},
		{"x y -", ""},
		{"x y x", "x"},
		{"x - -", ""},
		{"x x - -", ""}, // half is no majority
		{"x x y y", ""},
		{"y x x x", "x"},
		{"x x y y -", ""},
		{"x x y y y", "y"},
		{"- - - - -", ""}, // who denies without a name proves nothing
		{"- - x x x", "x"},
	} {
		holders := strings.Fields(c.holders)
		for i, h := range holders {
			if h == "-" {
				holders[i] = ""
			}
		}
		owner, ok := decision.Usurper(holders)
		require.Equal(t, c.owner, owner, c.holders)
		require.Equal(t, c.owner != "", ok, c.holders)
	}
}
