package node

import (
	"strconv"
	"strings"
)

// digitBuffer writes the numbers of all operations of an exchange into one piece of memory.
type digitBuffer struct {
	text strings.Builder
	// expected is the maximum of numbers. The next number is first written into one.
	expected int
	one      [20]byte
}

// begin begins another piece of memory, for this many numbers. Earlier texts stay valid.
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
