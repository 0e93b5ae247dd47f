package node

import (
	"encoding/binary"
	"strconv"

	"github.com/redis/rueidis"
)

// msgpackWriter makes one argument of many texts: an array in MessagePack, which a script takes apart with
// cmsgpack.unpack. As arguments of their own they would cost this side four times as much.
//
// It writes all arguments of an exchange into one piece of memory, and the next ones over them.
type msgpackWriter struct {
	bytes []byte
	// from is where the argument under way begins, and texts how many are in it.
	from  int
	texts uint32
}

// The forms of MessagePack that are written. (There is one for lengths of 8 bits, which the first
// servers with cmsgpack do not read.)
const (
	shortText = 0xa0 // and the length, below 32
	text16    = 0xda
	text32    = 0xdb
	array32   = 0xdd
)

// clear forgets what was packed: nobody may need it any more.
func (p *msgpackWriter) clear() { p.bytes = p.bytes[:0] }

// begin begins another argument.
func (p *msgpackWriter) begin() {
	p.from, p.texts = len(p.bytes), 0
	p.bytes = append(p.bytes, array32, 0, 0, 0, 0) // how many is known at the end
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

// addNumber adds a number as text: scripts keep tokens so, as Lua is slow to read them.
func (p *msgpackWriter) addNumber(n uint64) {
	at := len(p.bytes)
	p.bytes = strconv.AppendUint(append(p.bytes, shortText), n, 10)
	p.bytes[at] |= byte(len(p.bytes) - at - 1) // at most 20
	p.texts++
}

// end is the argument, good until clear.
func (p *msgpackWriter) end() string {
	binary.BigEndian.PutUint32(p.bytes[p.from+1:], p.texts)
	return rueidis.BinaryString(p.bytes[p.from:])
}
