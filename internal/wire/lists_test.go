package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// listOf makes a list of nodes, each an address of one letter and an id of one digit, or '?' if it is unknown.
func listOf(texts ...string) (l List) {
	for _, t := range texts {
		l.Addresses, l.IDs = append(l.Addresses, t[:1]), append(l.IDs, strings.Trim(t[1:], "?"))
	}
	return l
}

func TestCommonNodes(t *testing.T) {
	for _, c := range []struct {
		a, b   List
		common int
	}{
		{listOf("a1", "b2", "c3"), listOf("a1", "b2", "c3"), 3},
		{listOf("a1", "b2", "c3"), listOf("x1", "y2", "z4"), 2},       // other names
		{listOf("a1", "b2", "c3"), listOf("a7", "b8", "c9"), 3},       // other servers at the addresses
		{listOf("a1", "b2", "c3"), listOf("x?", "y?", "c3"), 3},       // they may be a and b
		{listOf("a?", "b2", "c3"), listOf("x1", "y2", "z4"), 2},       // a may be one of x and z
		{listOf("a?", "b?", "c?"), listOf("x?", "y?"), 2},             // no more than the shorter one has
		{listOf("a1", "b2"), listOf("x3", "y4", "z5"), 0},             // all are known
		{listOf("a1", "b2", "c3"), listOf("b2", "c3", "d?"), 3},       // d may be a
		{listOf("a1", "b2", "c3"), listOf("a1", "b2", "c3", "d?"), 3}, // a has its node
	} {
		for _, two := range [][2]List{{c.a, c.b}, {c.b, c.a}} {
			common, _, _ := CommonNodes(two[0], two[1])
			assert.Equal(t, c.common, common, "%v", two)
		}
	}
}

func TestNewList(t *testing.T) {
	assert.Equal(t, listOf("a?", "b?"), NewList([]string{"b", "a"}))
}
