package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// listOf makes a list of nodes, each an address of one letter and an id of one digit, or '?' if it is unknown.
func listOf(texts ...string) (nodes []ListedNode) {
	for _, t := range texts {
		n := ListedNode{Address: t[:1], ID: t[1:]}
		if n.ID == "?" {
			n.ID = ""
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestCommonNodes(t *testing.T) {
	for _, c := range []struct {
		a, b   []ListedNode
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
		assert.Equal(t, c.common, CommonNodes(c.a, c.b), "%v and %v", c.a, c.b)
		assert.Equal(t, c.common, CommonNodes(c.b, c.a), "%v and %v", c.b, c.a)
	}
}

func TestTextsOfLists(t *testing.T) {
	for _, list := range [][]ListedNode{listOf("a1"), listOf("a?"), listOf("a1", "b?", "c3"), listOf("a?", "b?")} {
		assert.Equal(t, list, ParseList(ListTexts(list)))
	}
	assert.Equal(t, listOf("a?", "b?"), ParseList("a\nb", "")) // as far as a broken text goes
	assert.Equal(t, listOf("a?", "b?"), SortedList([]string{"b", "a"}))
}
