package node

import (
	"encoding/binary"
	"strconv"

	"github.com/redis/rueidis"
)

// msgpackWriter joins many texts into one argument: an array in MessagePack, which a script reads with
// cmsgpack.unpack. Separate arguments would cost this side four times as much.
//
// It writes all arguments of an exchange into one piece of memory, which the next exchange overwrites.
type msgpackWriter struct {
	bytes []byte
	// from is where the present argument begins, and texts how many it has.
	from  int
	texts uint32
}

// The MessagePack forms in use. The one with lengths of 8 bits is not: the oldest servers with cmsgpack do
// not read it.
const (
	shortText = 0xa0 // plus the length, below 32
	text16    = 0xda
	text32    = 0xdb
	array32   = 0xdd
)

// clear forgets all arguments. They must no longer be in use.
func (p *msgpackWriter) clear() { p.bytes = p.bytes[:0] }

// begin begins another argument.
func (p *msgpackWriter) begin() {
	p.from, p.texts = len(p.bytes), 0
	p.bytes = append(p.bytes, array32, 0, 0, 0, 0) // end fills in the number of texts
}

func (p *msgpackWriter) add(text string) {
	switch n := len(text); {
	case n < 32:
		p.bytes = append(p.bytes, shortText|byte(n))
	case n < 1<<16:
		p.bytes = append(p.bytes, text16, byte(n>>8), byte(n))
	default:
		p.bytes = binary.BigEndian.AppendUint32(append(p.bytes, text32), uint32(n)) //nolint:gosec // a server takes no more
	}
	p.bytes = append(p.bytes, text...)
	p.texts++
}

// addNumber adds a number as text. Scripts keep tokens as text, since Lua parses numbers slowly.
func (p *msgpackWriter) addNumber(n uint64) {
	at := len(p.bytes)
	p.bytes = strconv.AppendUint(append(p.bytes, shortText), n, 10)
	p.bytes[at] |= byte(len(p.bytes) - at - 1) // at most 20
	p.texts++
}

// end returns the argument, which is valid until clear.
func (p *msgpackWriter) end() string {
	binary.BigEndian.PutUint32(p.bytes[p.from+1:], p.texts)
	return rueidis.BinaryString(p.bytes[p.from:])
}
