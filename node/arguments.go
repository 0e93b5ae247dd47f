package node

import (
	"encoding/binary"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// milliseconds writes a duration for a script. A program has few TTLs and limits, and writes them with every
// operation. So a small cache keeps the latest texts.
func milliseconds(d time.Duration) string {
	ms := d.Milliseconds()
	slot := &written[uint64(ms)*fibonacci>>(64-writtenBits)]
	if w := slot.Load(); w != nil && w.ms == ms {
		return w.text
	}
	w := &cachedText{ms, strconv.FormatInt(ms, 10)}
	slot.Store(w)
	return w.text
}

const (
	writtenBits = 8
	// fibonacci is 2^64 over the golden ratio, which scatters numbers by multiplication.
	fibonacci = 0x9E3779B97F4A7C15
)

var written [1 << writtenBits]atomic.Pointer[cachedText]

type cachedText struct {
	ms   int64
	text string
}

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

// The fence of a name is the largest token that a node has taken for it. A node keeps all fences in one text of
// fencePlaces places. A name has its place by a hash, so some names share one. That is safe: a token that is
// larger than the place is larger than the fence of the name. It only makes some tokens larger than need be.
//
// So a name that comes once leaves nothing behind, and a fence never expires.
const (
	fencePlaces = 1 << 16
	// fenceWidth is the number of digits of a place: enough for microseconds until the year 2286.
	fenceWidth = 16
)

// fencePlace returns the place of a name's fence: the two halves of its FNV-1a hash, combined. All clients of a
// node must use the same hash.
func fencePlace(name string) uint16 {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * prime
	}
	return uint16(h>>16 ^ h) //nolint:gosec // the lower half
}

// fenceOffset returns the offset of a name's place in the text.
func fenceOffset(name string) uint64 { return uint64(fencePlace(name)) * fenceWidth }

// fences makes the argument with the offsets of an operation's names.
func (w *writer) fences(op *wire.Op) string {
	if len(op.Names) == 1 {
		return w.numerals.unsigned(fenceOffset(op.Names[0]))
	}
	var b strings.Builder
	for _, name := range op.Names {
		b.WriteString(strconv.FormatUint(fenceOffset(name), 10))
		b.WriteByte(' ')
	}
	return b.String()
}
