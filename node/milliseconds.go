package node

import (
	"strconv"
	"sync/atomic"
	"time"
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
