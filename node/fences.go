package node

import (
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
)

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
