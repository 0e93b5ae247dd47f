package node

import (
	"strconv"
	"strings"
)

// digitBuffer turns numbers into texts that share memory: many texts cost one allocation. A text stays valid,
// since its memory is not written again.
type digitBuffer struct {
	text strings.Builder
	// one is where the next number is written first.
	one [20]byte
}

// digitMemory is how much memory texts share, in bytes.
const digitMemory = 512

func (n *digitBuffer) unsigned(v uint64) string { return n.add(strconv.AppendUint(n.one[:0], v, 10)) }

func (n *digitBuffer) signed(v int64) string { return n.add(strconv.AppendInt(n.one[:0], v, 10)) }

func (n *digitBuffer) add(digits []byte) string {
	if n.text.Cap()-n.text.Len() < len(digits) {
		n.text.Reset()
		n.text.Grow(digitMemory)
	}
	from := n.text.Len()
	n.text.Write(digits)
	return n.text.String()[from:]
}
