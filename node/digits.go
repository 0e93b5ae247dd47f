package node

import (
	"strconv"
	"strings"
)

// digitBuffer writes numbers one behind the other into one piece of memory: those of all the
// operations that are sent together.
type digitBuffer struct {
	text strings.Builder
	// expected is how many there may be, one is where the next is written first.
	expected int
	one      [20]byte
}

// begin begins another piece, for so many. What was written before stays as it is.
func (n *digitBuffer) begin(expected int) {
	n.text.Reset()
	n.expected = expected
}

func (n *digitBuffer) unsigned(v uint64) string { return n.add(strconv.AppendUint(n.one[:0], v, 10)) }

func (n *digitBuffer) signed(v int64) string { return n.add(strconv.AppendInt(n.one[:0], v, 10)) }

func (n *digitBuffer) add(digits []byte) string {
	if n.text.Cap() == 0 {
		n.text.Grow(n.expected * len(n.one))
	}
	from := n.text.Len()
	n.text.Write(digits)
	return n.text.String()[from:]
}
